package streamling;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.AggregatingAccumulator;
import org.apache.spark.sql.execution.AggregatingAccumulator$;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.types.DataType;

/** Computes the aggregates of an observation, as Spark does in its tasks. */
final class ObserveStage extends Stage {
  final String name;
  private final CollectMetricsExec plan;
  private final Stage next;
  private AggregatingAccumulator values;

  ObserveStage(CollectMetricsExec plan, Stage next) {
    this.name = plan.name();
    this.plan = plan;
    this.next = next;
    reset();
  }

  void reset() {
    values = AggregatingAccumulator$.MODULE$.apply(plan.metricExpressions(), plan.child().output());
  }

  void take(InternalRow row) {
    values.add(row);
    next.take(row);
  }

  /** The aggregates of the last batch, such as {@code 12,1700000000000}; nothing stands for null. */
  String text() {
    InternalRow row = (InternalRow) values.value();
    StringBuilder text = new StringBuilder();
    for (int number = 0; number < plan.metricExpressions().size(); number++) {
      DataType type = ((Expression) plan.metricExpressions().apply(number)).dataType();
      Object value = row.isNullAt(number) ? "" : row.get(number, type);
      text.append(number == 0 ? "" : ",").append(value);
    }
    return text.toString();
  }
}
