package streamling;

import java.io.Serializable;
import java.util.AbstractMap;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
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
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import scala.None$;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Counts the rows of a frame while Spark computes them. It is the condition of a filter that keeps all rows, so it
 * becomes part of the generated code: a tenth of what an observation costs.
 */
public final class RowCounter implements Serializable, TaskCompletionListener {
  private static final long serialVersionUID = 1L;

  /** One letter per group of rows that is counted besides all rows. */
  private final String groups;
  private final PartitionCounts partitions = new PartitionCounts();
  private transient Dataset frame;
  /** Of the task that this copy belongs to: all rows, and those with each text of one byte. */
  private transient long rows;
  private transient long[] counted;

  private RowCounter(String groups) {
    this.groups = groups;
  }

  /**
   * A counter of all rows: the one that is there if they are already counted in groups. Null if the optimizer may
   * compute the rows of {@code frame}.
   */
  public static RowCounter of(Dataset frame) {
    LogicalPlan rows = frame.queryExecution().analyzed();
    RowCounter known = of(rows);
    if (known != null || hasLeaf(frame, LocalRelation.class)) {
      return known;
    }
    RowCounter counter = new RowCounter("");
    return counter.over(frame, new Filter(counter.call("count", none()), rows));
  }

  /** The counter whose frame has this plan, if it counts groups. */
  private static RowCounter of(LogicalPlan rows) {
    if (!(rows instanceof Project) || !(((Project) rows).child() instanceof Filter)) {
      return null;
    }
    LogicalPlan below = ((Filter) ((Project) rows).child()).child();
    Object last = below instanceof Project ? ((Project) below).projectList().last() : null;
    Object call = last instanceof Alias ? ((Alias) last).child() : null;
    Object target = call instanceof Invoke ? ((Invoke) call).targetObject() : null;
    Object value = target instanceof Literal ? ((Literal) target).value() : null;
    return value instanceof RowCounter ? (RowCounter) value : null;
  }

  /**
   * A counter of the rows with each of these letters in {@code column}; if there is a column {@code unless}, only of
   * those with a null in it. Null if there is no {@code column}, or if the driver may compute the rows without a job.
   */
  public static RowCounter of(Dataset frame, String letters, String column, String unless) {
    LogicalPlan rows = frame.queryExecution().analyzed();
    Attribute letter = find(rows, column);
    if (letter == null || hasLeaf(frame, LocalRelation.class) || hasLeaf(frame, LogicalRDD.class)) {
      return null;
    }
    RowCounter counter = new RowCounter(letters);
    Expression group = group(letter, find(rows, unless));
    // a column of its own: the optimizer would compute the letter twice for the condition of a filter
    ExprId id = NamedExpression$.MODULE$.newExprId();
    Expression call = counter.call("count", (Seq) none().appended(group));
    Alias counted = new Alias(call, "counted", id, none(), noOption(), none());
    // a call: if the condition were a column, the optimizer would derive constraints from all others (0.7 ms per batch)
    Expression keeps = counter.call("keeps", (Seq) none().appended(counted.toAttribute()));
    LogicalPlan plan = new Filter(keeps, new Project((Seq) rows.output().appended(counted), rows));
    return counter.over(frame, new Project(rows.output(), plan));
  }

  /** A text that is never null: generated code would not pass it on. */
  private static Expression group(Attribute letter, Attribute unless) {
    Expression other = Literal.create(UTF8String.EMPTY_UTF8, StringType$.MODULE$);
    Expression text = new Coalesce((Seq) ((Seq) none().appended(letter)).appended(other));
    return unless == null ? text : new If(new IsNull(unless), text, other);
  }

  private static Attribute find(LogicalPlan rows, String column) {
    for (int number = 0; number < rows.output().size(); number++) {
      Attribute found = (Attribute) rows.output().apply(number);
      if (found.name().equals(column)) {
        return found;
      }
    }
    return null;
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
    plan.setAnalyzed(); // everything is resolved: to check it takes 2 ms per batch
    this.frame = Dataset.ofRows((SparkSession) frame.sparkSession(), plan);
    return this;
  }

  /** Not deterministic: otherwise the optimizer would replace the call by its result. */
  private Expression call(String method, Seq arguments) {
    Expression counter = Literal.create(this, new ObjectType(RowCounter.class));
    return new Invoke(counter, method, BooleanType$.MODULE$, arguments, none(), false, false, false);
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
      counted = new long[256];
    }
    if (group.numBytes() == 1) {
      counted[group.getByte(0) & 255]++;
    }
    return count();
  }

  /** Called for each row that has been counted. */
  public boolean keeps(boolean counted) {
    return counted;
  }

  public void onTaskCompletion(TaskContext task) {
    long[] counts = new long[1 + groups.length()];
    counts[0] = rows;
    for (int number = 0; number < groups.length(); number++) {
      counts[1 + number] = counted[groups.charAt(number)];
    }
    partitions.add(new AbstractMap.SimpleEntry(Integer.valueOf(task.partitionId()), counts));
  }

  /** The number of all rows, and of those of each group, separated by spaces. */
  public String counts() {
    long[] total = partitions.total(1 + groups.length());
    StringBuilder text = new StringBuilder();
    for (int number = 0; number < total.length; number++) {
      text.append(total[number]).append(' ');
    }
    return text.toString();
  }
}
