package streamling.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import streamling.plan.RowSink;

/**
 * Writes the messages of small batches to a topic, with one producer that is kept. For several streams: they take turns.
 */
public final class MessageSender implements RowSink {
  private final Map<String, Object> settings;
  private final String topic;
  private final boolean isDeduplicating;
  private final boolean isText;
  /** Null before the first message, and after an error: a producer that has lost messages may refuse all others. */
  private KafkaProducer<byte[], byte[]> producer;

  /** {@code isText}: values are text, not bytes. */
  public MessageSender(Map<String, Object> settings, String topic, boolean isDeduplicating, boolean isText) {
    this.settings = settings;
    this.topic = topic;
    this.isDeduplicating = isDeduplicating;
    this.isText = isText;
  }

  /** Writes rows of key, value and headers; returns the number of messages when the brokers have stored them. */
  @Override
  public synchronized int write(List<InternalRow> rows) throws InterruptedException, ExecutionException {
    if (producer == null) {
      producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
    try {
      return send(isDeduplicating ? lastPerKey(rows) : rows);
    } catch (InterruptedException | ExecutionException | RuntimeException error) {
      close();
      throw error;
    }
  }

  private int send(Collection<InternalRow> rows) throws InterruptedException, ExecutionException {
    List<Future<?>> sent = new ArrayList<>(rows.size());
    for (InternalRow row : rows) {
      sent.add(producer.send(message(row)));
    }
    producer.flush();
    for (Future<?> message : sent) {
      message.get();
    }
    return sent.size();
  }

  /** Disconnects without waiting. */
  public synchronized void close() {
    if (producer != null) {
      producer.close(Duration.ZERO);
      producer = null;
    }
  }

  /** The last row of each key, in order. */
  private static Collection<InternalRow> lastPerKey(List<InternalRow> rows) {
    Map<UTF8String, InternalRow> last = new LinkedHashMap<>();
    for (InternalRow row : rows) {
      UTF8String key = row.getUTF8String(0);
      last.remove(key);
      last.put(key, row);
    }
    return last.values();
  }

  private ProducerRecord<byte[], byte[]> message(InternalRow row) {
    byte[] value = null;
    if (!row.isNullAt(1)) {
      value = isText ? row.getUTF8String(1).getBytes() : row.getBinary(1);
    }
    List<Header> headers = new ArrayList<>();
    var items = row.getArray(2);
    for (int number = 0; number < items.numElements(); number++) {
      InternalRow header = items.getStruct(number, 2);
      headers.add(new RecordHeader(header.getUTF8String(0).toString(), header.getBinary(1)));
    }
    return new ProducerRecord<>(topic, null, row.getUTF8String(0).getBytes(), value, headers);
  }
}
