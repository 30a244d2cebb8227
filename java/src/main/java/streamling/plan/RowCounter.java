package streamling.plan;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;

/**
 * Counts the rows of a frame while Spark computes them. It is the condition of a filter that keeps all rows, so it
 * becomes part of the generated code: a tenth of what an observation costs.
 */
public final class RowCounter implements Serializable, TaskCompletionListener {
  private static final long serialVersionUID = 1L;

  /** One letter per group of rows that is counted besides all rows. */
  private final String groups;
  private final PartitionCounts partitions = new PartitionCounts();
  private transient Dataset<Row> frame;
  /** Of the task that this copy belongs to: all rows, and those with each text of one byte. */
  private transient long rows;
  private transient long[] counted;

  private RowCounter(String groups) {
    this.groups = groups;
  }

  /**
   * Returns a counter of all rows: the one that is there if they are already counted in groups. Null if the optimizer
   * may compute the rows of {@code frame}.
   */
  public static RowCounter of(Dataset<Row> frame) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    RowCounter known = groupCounter(plan);
    if (known != null || hasLeaf(plan, LocalRelation.class)) {
      return known;
    }
    var counter = new RowCounter("");
    return counter.over(frame, new Filter(counter.call("count"), plan));
  }

  /** The counter whose frame has this plan, if it counts groups. */
  private static RowCounter groupCounter(LogicalPlan plan) {
    return plan instanceof Project all
            && all.child() instanceof Filter keeping
            && keeping.child() instanceof Project counting
            && last(counting) instanceof Alias counted
            && counted.child() instanceof Invoke call
            && call.targetObject() instanceof Literal target
            && target.value() instanceof RowCounter counter
        ? counter
        : null;
  }

  private static NamedExpression last(Project plan) {
    var columns = Seqs.list(plan.projectList());
    return columns.get(columns.size() - 1);
  }

  /**
   * Returns a counter of the rows with each of these letters in {@code column}; if there is a column {@code unless},
   * only of those with a null in it. Null if there is no {@code column}, or if the driver may compute the rows without
   * a job.
   */
  public static RowCounter of(Dataset<Row> frame, String letters, String column, String unless) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    Attribute letter = find(plan, column);
    if (letter == null || hasLeaf(plan, LocalRelation.class) || hasLeaf(plan, LogicalRDD.class)) {
      return null;
    }
    var counter = new RowCounter(letters);
    Expression group = group(letter, find(plan, unless));
    // a column of its own: the optimizer would compute the letter twice for the condition of a filter
    var counted =
        new Alias(
            counter.call("count", group), "counted", NamedExpression.newExprId(), Seqs.of(), Option.empty(), Seqs.of());
    List<NamedExpression> columns = new ArrayList<>(Seqs.list(plan.output()));
    columns.add(counted);
    // a call: if the condition were a column, the optimizer would derive constraints from all others (0.7 ms per batch)
    Expression keeps = counter.call("keeps", counted.toAttribute());
    var kept = new Filter(keeps, new Project(Seqs.from(columns), plan));
    return counter.over(frame, new Project(Seqs.from(columns.subList(0, columns.size() - 1)), kept));
  }

  /** A text that is never null: generated code would not pass it on. */
  private static Expression group(Attribute letter, Attribute unless) {
    Expression other = Literal.create(UTF8String.EMPTY_UTF8, DataTypes.StringType);
    Expression text = new Coalesce(Seqs.of(letter, other));
    return unless == null ? text : new If(new IsNull(unless), text, other);
  }

  private static Attribute find(LogicalPlan plan, String column) {
    return Seqs.list(plan.output()).stream().filter(each -> each.name().equals(column)).findFirst().orElse(null);
  }

  private static boolean hasLeaf(LogicalPlan plan, Class<? extends LogicalPlan> kind) {
    return Seqs.list(plan.collectLeaves()).stream().anyMatch(kind::isInstance);
  }

  private RowCounter over(Dataset<Row> counted, LogicalPlan plan) {
    counted.sparkSession().sparkContext().register(partitions);
    plan.setAnalyzed(); // everything is resolved: to check it takes 2 ms per batch
    frame = Dataset.ofRows(counted.sparkSession(), plan);
    return this;
  }

  private Expression call(String method, Expression... arguments) {
    return Calls.call(this, method, DataTypes.BooleanType, arguments);
  }

  /** Returns the rows that it counts. */
  public Dataset<Row> frame() {
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
  public boolean keeps(boolean isCounted) {
    return isCounted;
  }

  @Override
  public void onTaskCompletion(TaskContext task) {
    var counts = new long[1 + groups.length()];
    counts[0] = rows;
    for (int number = 0; number < groups.length(); number++) {
      counts[1 + number] = counted[groups.charAt(number)];
    }
    partitions.add(new PartitionCounts.Count(task.partitionId(), counts));
  }

  /** Returns the number of all rows, and of those of each group, separated by spaces. */
  public String counts() {
    var tasks = partitions.value().values();
    return IntStream.rangeClosed(0, groups.length())
        .mapToObj(number -> Long.toString(tasks.stream().mapToLong(counts -> counts[number]).sum()))
        .collect(Collectors.joining(" "));
  }
}
