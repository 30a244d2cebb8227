package streamling;

import java.io.Serializable;
import java.util.AbstractMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.BooleanType$;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import scala.None$;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Counts the rows of a frame while Spark computes them. It is the condition of a filter that keeps all rows, so it
 * becomes part of the generated code: a tenth of what an observation costs.
 */
public final class RowCounter implements Serializable, TaskCompletionListener {
  private static final long serialVersionUID = 1L;

  /** One letter per group of rows that is counted; empty: all rows are. */
  private final String groups;
  private final PartitionCounts partitions = new PartitionCounts();
  private transient Dataset frame;
  /** Of the task that this copy belongs to: all rows, and those of each group. */
  private transient long rows;
  private transient long[] counted;

  private RowCounter(String groups) {
    this.groups = groups;
  }

  /** A counter of all rows; null if the optimizer may compute those of {@code frame}. */
  public static RowCounter of(Dataset frame) {
    if (hasLeaf(frame, LocalRelation.class)) {
      return null;
    }
    RowCounter counter = new RowCounter("");
    LogicalPlan rows = frame.queryExecution().analyzed();
    return counter.over(frame, new Filter(counter.call(none()), rows));
  }

  /**
   * A counter of the rows with each of these letters in the last column of {@code frame}, a text without nulls (which
   * generated code does not pass on); its own frame does not have this column. Null if the driver may compute the rows
   * without a job.
   */
  public static RowCounter of(Dataset frame, String letters) {
    if (hasLeaf(frame, LocalRelation.class) || hasLeaf(frame, LogicalRDD.class)) {
      return null;
    }
    RowCounter counter = new RowCounter(letters);
    LogicalPlan rows = frame.queryExecution().analyzed();
    Seq others = (Seq) rows.output().init();
    ListBuffer group = new ListBuffer();
    group.append(rows.output().last());
    // a column of its own: the optimizer would compute the group twice for the condition of a filter
    ExprId id = NamedExpression$.MODULE$.newExprId();
    Alias counted = new Alias(counter.call(group.toList()), "counted", id, none(), noOption(), none());
    ListBuffer columns = new ListBuffer();
    columns.appendAll(others);
    columns.append(counted);
    LogicalPlan plan = new Filter(counted.toAttribute(), new Project(columns.toList(), rows));
    return counter.over(frame, new Project(others, plan));
  }

  private static boolean hasLeaf(Dataset frame, Class kind) {
    Seq leaves = frame.queryExecution().analyzed().collectLeaves();
    for (int number = 0; number < leaves.size(); number++) {
      if (kind.isInstance(leaves.apply(number))) {
        return true;
      }
    }
    return false;
  }

  private RowCounter over(Dataset frame, LogicalPlan plan) {
    frame.sparkSession().sparkContext().register(partitions);
    this.frame = Dataset.ofRows((SparkSession) frame.sparkSession(), plan);
    return this;
  }

  /** Not deterministic: otherwise the optimizer would replace the call by its result. */
  private Expression call(Seq arguments) {
    Expression counter = Literal.create(this, new ObjectType(RowCounter.class));
    return new Invoke(counter, "count", BooleanType$.MODULE$, arguments, none(), false, false, false);
  }

  private static Seq none() {
    return (Seq) (Object) Nil$.MODULE$;
  }

  private static Option noOption() {
    return (Option) (Object) None$.MODULE$;
  }

  /** The rows that it counts. */
  public Dataset frame() {
    return frame;
  }

  /** Called for each row. */
  public boolean count() {
    if (rows++ == 0) {
      TaskContext.get().addTaskCompletionListener(this);
    }
    return true;
  }

  /** Called for each row, with its group. */
  public boolean count(UTF8String group) {
    if (counted == null) {
      counted = new long[groups.length()];
    }
    int number = group.numBytes() != 1 ? -1 : groups.indexOf(group.getByte(0));
    if (number >= 0) {
      counted[number]++;
    }
    return count();
  }

  public void onTaskCompletion(TaskContext task) {
    long[] counts = counted == null ? new long[] {rows} : counted;
    partitions.add(new AbstractMap.SimpleEntry(Integer.valueOf(task.partitionId()), counts));
  }

  /** The number of rows, or those of each group, separated by spaces. */
  public String counts() {
    long[] total = partitions.total(Math.max(1, groups.length()));
    StringBuilder text = new StringBuilder();
    for (int number = 0; number < total.length; number++) {
      text.append(total[number]).append(' ');
    }
    return text.toString();
  }
}
