package streamling.plan;

import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.AggregatingAccumulator;
import org.apache.spark.sql.execution.CollectMetricsExec;

/** Computes the aggregates of an observation, as Spark does in its tasks. */
final class ObserveStage implements Stage {
  private final CollectMetricsExec plan;
  private final Stage next;
  private AggregatingAccumulator values;

  ObserveStage(CollectMetricsExec plan, Stage next) {
    this.plan = plan;
    this.next = next;
    reset();
  }

  void reset() {
    values = AggregatingAccumulator.apply(Seqs.expressions(plan.metricExpressions()), plan.child().output());
  }

  @Override
  public void take(InternalRow row) {
    values.add(row);
    next.take(row);
  }

  /** Returns name and aggregates since the last {@link #reset}, such as {@code name=12,1700000000000}; nothing stands for null. */
  String text() {
    InternalRow row = values.value();
    var aggregates = Seqs.list(Seqs.expressions(plan.metricExpressions()));
    return IntStream.range(0, aggregates.size())
        .mapToObj(number -> row.isNullAt(number) ? "" : text(row, number, aggregates.get(number)))
        .collect(Collectors.joining(",", plan.name() + "=", ""));
  }

  private static String text(InternalRow row, int number, Expression aggregate) {
    return row.get(number, aggregate.dataType()).toString();
  }
}
