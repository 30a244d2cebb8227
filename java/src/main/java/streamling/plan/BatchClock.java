package streamling.plan;

import java.io.Serializable;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The current time of a batch. Spark's optimizer replaces {@code now()} and {@code current_date()} by constants when a
 * plan is made. A plan that is used for many batches calls this clock instead.
 */
public final class BatchClock implements Serializable {
  private static final long serialVersionUID = 1L;

  private final ZoneId zone;
  private Instant now = Instant.now();

  BatchClock(String zone) {
    this.zone = ZoneId.of(zone);
  }

  /** A new batch begins. */
  void advance() {
    now = Instant.now();
  }

  public long timestamp() {
    return DateTimeUtils.instantToMicros(now);
  }

  public long localTimestamp() {
    return DateTimeUtils.localDateTimeToMicros(LocalDateTime.ofInstant(now, zone));
  }

  public int date() {
    return (int) LocalDateTime.ofInstant(now, zone).toLocalDate().toEpochDay();
  }

  /** Replaces an expression of a plan if it stands for the current time. */
  Expression replace(Expression expression) {
    if (expression instanceof CurrentTimestampLike) {
      return call("timestamp", DataTypes.TimestampType);
    }
    if (expression instanceof LocalTimestamp) {
      return call("localTimestamp", DataTypes.TimestampNTZType);
    }
    return expression instanceof CurrentDate ? call("date", DataTypes.DateType) : expression;
  }

  private Expression call(String method, DataType type) {
    return Calls.call(this, method, type);
  }
}
