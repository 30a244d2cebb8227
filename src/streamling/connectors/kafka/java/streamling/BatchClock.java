package streamling;

import java.io.Serializable;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * The current time of a batch. Spark's optimizer replaces {@code now()} and {@code current_date()} by constants when a
 * plan is made. A plan that is used for many batches calls this clock instead.
 */
public final class BatchClock extends AbstractPartialFunction implements Serializable {
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

  // ── replaces expressions of a plan ────────────────────────────────────────────────────────────────────────

  public boolean isDefinedAt(Object expression) {
    return expression instanceof CurrentTimestampLike
        || expression instanceof LocalTimestamp
        || expression instanceof CurrentDate;
  }

  public Object applyOrElse(Object expression, scala.Function1 otherwise) {
    if (expression instanceof CurrentTimestampLike) {
      return call("timestamp", TimestampType$.MODULE$);
    }
    if (expression instanceof LocalTimestamp) {
      return call("localTimestamp", TimestampNTZType$.MODULE$);
    }
    return expression instanceof CurrentDate ? call("date", DateType$.MODULE$) : otherwise.apply(expression);
  }

  /** Not deterministic: otherwise the optimizer would replace the call by its result. */
  private Expression call(String method, DataType type) {
    Expression clock = Literal.create(this, new ObjectType(BatchClock.class));
    Seq none = (Seq) (Object) Nil$.MODULE$;
    return new Invoke(clock, method, type, none, none, true, false, false);
  }
}
