package streamling.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import streamling.plan.RowSink;

/** Writes the messages of small batches to a topic. Senders with the same client settings share one producer. */
public final class MessageSender implements RowSink {
  private final Map<String, Object> settings;
  private final String topic;
  private final boolean isDeduplicating;
  private final boolean isText;
  /** Null before the first message, and after an error: a producer that has lost messages may refuse all others. */
  private SharedProducer producer;

  /** {@code isText}: values are text, not bytes. */
  public MessageSender(Map<String, Object> settings, String topic, boolean isDeduplicating, boolean isText) {
    this.settings = Map.copyOf(settings);
    this.topic = topic;
    this.isDeduplicating = isDeduplicating;
    this.isText = isText;
  }

  /** Writes rows of key, value and headers. */
  @Override
  public CompletableFuture<Integer> write(List<InternalRow> rows) {
    Collection<InternalRow> wanted = isDeduplicating ? lastPerKey(rows) : rows;
    var done = new CompletableFuture<Integer>();
    var left = new AtomicInteger(wanted.size());
    var failure = new AtomicReference<Exception>();
    try {
      SharedProducer used = acquire();
      for (InternalRow row : wanted) {
        used.client.send(
            message(row),
            (metadata, error) -> {
              if (error != null) {
                failure.compareAndSet(null, error);
              }
              if (left.decrementAndGet() == 0) {
                finish(done, used, wanted.size(), failure.get());
              }
            });
      }
    } catch (RuntimeException error) { // those before it may still be on their way
      close();
      done.completeExceptionally(error);
    }
    return done;
  }

  /** The same, and waits. */
  public int send(List<InternalRow> rows) throws InterruptedException, ExecutionException {
    return write(rows).get();
  }

  private void finish(CompletableFuture<Integer> done, SharedProducer used, int sent, Exception error) {
    if (error == null) {
      done.complete(sent);
    } else {
      used.retire();
      close();
      done.completeExceptionally(error);
    }
  }

  private synchronized SharedProducer acquire() {
    if (producer == null) {
      producer = SharedProducer.acquire(settings);
    }
    return producer;
  }

  /** Disconnects without waiting. */
  public synchronized void close() {
    if (producer != null) {
      producer.release();
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

  /** A producer and how many senders use it. */
  private static final class SharedProducer {
    /** By client settings. Guards the numbers of users, too. */
    private static final Map<Map<String, Object>, SharedProducer> PRODUCERS = new HashMap<>();

    private final Map<String, Object> settings;
    private final KafkaProducer<byte[], byte[]> client;
    private int users;

    private SharedProducer(Map<String, Object> settings) {
      this.settings = settings;
      client = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static SharedProducer acquire(Map<String, Object> settings) {
      synchronized (PRODUCERS) {
        SharedProducer found = PRODUCERS.computeIfAbsent(settings, SharedProducer::new);
        found.users++;
        return found;
      }
    }

    /** Others get a new one from now on; those that use this one may continue. */
    void retire() {
      synchronized (PRODUCERS) {
        PRODUCERS.remove(settings, this);
      }
    }

    void release() {
      synchronized (PRODUCERS) {
        users--;
        if (users > 0) {
          return;
        }
        PRODUCERS.remove(settings, this);
      }
      client.close(Duration.ZERO);
    }
  }
}
