package streamling;

import java.io.Serializable;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.TaskCompletionListener;
import scala.Function1;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Counts the rows of a frame while Spark computes them. It is the condition of a filter that keeps all rows, so it
 * becomes part of the generated code: a tenth of what an observation costs. All jobs that compute the rows add up.
 */
public final class RowCounter implements Serializable, TaskCompletionListener {
  private static final long serialVersionUID = 1L;

  private final LongAccumulator rows;
  private transient Dataset frame;
  /** Of the task that this copy belongs to. */
  private transient long counted;

  private RowCounter(LongAccumulator rows) {
    this.rows = rows;
  }

  /** A counter in a plan; null if the optimizer may compute the rows of {@code frame}, perhaps several times. */
  public static RowCounter of(Dataset frame) {
    Seq leaves = frame.queryExecution().analyzed().collectLeaves();
    for (int number = 0; number < leaves.size(); number++) {
      if (leaves.apply(number) instanceof LocalRelation) {
        return null;
      }
    }
    RowCounter counter = new RowCounter(frame.sparkSession().sparkContext().longAccumulator());
    counter.frame = plan(frame, new Filter(counter.condition(), frame.queryExecution().analyzed()));
    return counter;
  }

  /** The rows that it counts. */
  public Dataset frame() {
    return frame;
  }

  /** {@code frame} without any counter in its plan. */
  public static Dataset without(Dataset frame) {
    return plan(frame, (LogicalPlan) frame.queryExecution().analyzed().transformUp(new Removal()));
  }

  /** Called for each row. */
  public boolean count() {
    if (counted++ == 0) {
      TaskContext.get().addTaskCompletionListener(this);
    }
    return true;
  }

  public void onTaskCompletion(TaskContext task) {
    rows.add(counted);
  }

  public long rows() {
    return rows.sum();
  }

  /** Not deterministic: otherwise the optimizer would replace the call by its result. */
  private Expression condition() {
    Seq none = (Seq) (Object) Nil$.MODULE$;
    Expression counter = Literal.create(this, new ObjectType(RowCounter.class));
    return new Invoke(counter, "count", BooleanType$.MODULE$, none, none, true, false, false);
  }

  private static Dataset plan(Dataset frame, LogicalPlan plan) {
    return Dataset.ofRows((SparkSession) frame.sparkSession(), plan);
  }

  private static final class Removal extends AbstractPartialFunction {
    public boolean isDefinedAt(Object plan) {
      if (!(plan instanceof Filter) || !(((Filter) plan).condition() instanceof Invoke)) {
        return false;
      }
      Expression target = ((Invoke) ((Filter) plan).condition()).targetObject();
      return target instanceof Literal && ((Literal) target).value() instanceof RowCounter;
    }

    public Object applyOrElse(Object plan, Function1 otherwise) {
      return isDefinedAt(plan) ? ((Filter) plan).child() : otherwise.apply(plan);
    }
  }
}
