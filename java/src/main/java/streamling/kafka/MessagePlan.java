package streamling.kafka;

import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import scala.Function1;
import streamling.plan.BatchPlan;
import streamling.plan.LocalPlan;
import streamling.plan.Stage;

/** A {@link LocalPlan} over the messages of a topic. */
public final class MessagePlan {
  private final LocalPlan plan;
  private final Function1<ConsumerRecord<byte[], byte[]>, UnsafeRow> toRow;

  /** {@code headers}: whether messages have that column. */
  public MessagePlan(LocalPlan plan, boolean headers) {
    this.plan = plan;
    toRow = new KafkaRecordToRowConverter().toUnsafeRowProjector(headers);
  }

  /** Returns Kafka's columns as a frame over which such a plan is made. */
  public static Dataset<Row> template(SparkSession session, boolean headers) {
    return BatchPlan.template(session, KafkaRecordToRowConverter.kafkaSchema(headers));
  }

  /** Returns the rows of the messages that were last taken from {@code source}, as an Arrow stream; null if there are none. */
  public byte[] arrow(Subscription source) throws IOException {
    return plan.arrow(messages(source));
  }

  /** The same as Spark's own rows. */
  public List<InternalRow> rows(Subscription source) {
    return plan.rows(messages(source));
  }

  /** Returns the observations of the plan and their values since the last call. */
  String observed() {
    return plan.observed();
  }

  private Consumer<Stage> messages(Subscription source) {
    return stage -> source.taken().forEach(message -> stage.take(toRow.apply(message)));
  }
}
