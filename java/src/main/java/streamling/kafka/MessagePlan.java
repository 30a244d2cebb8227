package streamling.kafka;

import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import scala.Function1;
import streamling.kafka.Chunk.Slice;
import streamling.plan.BatchPlan;
import streamling.plan.LocalPlan;
import streamling.plan.Stage;

/**
 * A {@link LocalPlan} over the messages of a topic. If other streams get the same messages, they are decoded once: such
 * a plan is evaluated in two parts.
 */
public final class MessagePlan {
  private final LocalPlan whole;
  private final Function1<ConsumerRecord<byte[], byte[]>, UnsafeRow> toRow;
  /** How messages are decoded, equal for plans that make the same rows of them; null if the plan has one part. */
  private String how;
  private Dataset<Row> frame;
  private Dataset<Row> decoded;
  /** The parts, once they are needed: what decodes messages, and what follows it. */
  private LocalPlan decoding;
  private LocalPlan rest;

  private final Set<LocalPlan> evaluated = new LinkedHashSet<>();
  private Consumer<Stage> input;

  /** {@code headers}: whether messages have that column. */
  public MessagePlan(LocalPlan whole, boolean headers) {
    this.whole = whole;
    toRow = new KafkaRecordToRowConverter().toUnsafeRowProjector(headers);
  }

  /** Returns Kafka's columns as a frame over which such a plan is made. */
  public static Dataset<Row> template(SparkSession session, boolean headers) {
    return BatchPlan.template(session, KafkaRecordToRowConverter.kafkaSchema(headers));
  }

  /** The plan is that of {@code frame}, which was made from {@code decoded}: one row for each message. */
  public void share(String howDecoded, Dataset<Row> decodedFrame, Dataset<Row> wholeFrame) {
    how = howDecoded;
    decoded = decodedFrame;
    frame = wholeFrame;
  }

  /** Returns the rows of the messages that were last taken from {@code source}, as an Arrow stream; null: there are none. */
  public byte[] arrow(Subscription source) throws IOException {
    List<Slice> slices = source.taken();
    return choose(slices).arrow(input);
  }

  /** The same as Spark's own rows. */
  public List<InternalRow> rows(Subscription source) {
    List<Slice> slices = source.taken();
    return choose(slices).rows(input);
  }

  /** Returns the observations of the plans that have been evaluated since the last call, and their values. */
  String observed() {
    String text = evaluated.stream().map(LocalPlan::observed).collect(Collectors.joining(" "));
    evaluated.clear();
    return text;
  }

  /** Returns the plan for these messages, and sets its {@link #input}. */
  private LocalPlan choose(List<Slice> slices) {
    boolean isShared = isShared(slices);
    input = isShared ? sharedRows(slices) : messages(slices);
    LocalPlan plan = isShared ? rest : whole;
    evaluated.add(plan);
    return plan;
  }

  private Consumer<Stage> messages(List<Slice> slices) {
    return stage -> slices.forEach(slice -> slice.messages().forEach(message -> stage.take(toRow.apply(message))));
  }

  // ── in two parts ──────────────────────────────────────────────────────────────────────────────────────────

  private boolean isShared(List<Slice> slices) {
    if (how == null || slices.stream().noneMatch(slice -> slice.chunk().isShared)) {
      return false;
    }
    if (rest == null) {
      try {
        decoding = LocalPlan.of(decoded);
        rest = LocalPlan.of(BatchPlan.without(frame, decoded));
      } catch (LocalPlan.NeedsJob | IllegalArgumentException inseparable) {
        how = null;
        return false;
      }
    }
    return canDecode(slices);
  }

  /** False if a message is invalid: then the whole plan says which one, and only for the messages of this batch. */
  private boolean canDecode(List<Slice> slices) {
    try {
      slices.forEach(this::decodedRows);
      return true;
    } catch (RuntimeException invalid) {
      return false;
    }
  }

  private Consumer<Stage> sharedRows(List<Slice> slices) {
    return stage -> slices.forEach(slice -> decodedRows(slice).subList(slice.from(), slice.to()).forEach(stage::take));
  }

  private List<InternalRow> decodedRows(Slice slice) {
    return slice.chunk().decoded(how, () -> decode(slice.chunk().messages));
  }

  private List<InternalRow> decode(List<ConsumerRecord<byte[], byte[]>> messages) {
    List<InternalRow> rows = decoding.rows(stage -> messages.forEach(message -> stage.take(toRow.apply(message))));
    if (rows.size() != messages.size()) {
      throw new IllegalStateException("decoding has changed the number of rows");
    }
    return rows;
  }
}
