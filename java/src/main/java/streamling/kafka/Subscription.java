package streamling.kafka;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The messages of one stream: a bounded buffer between the thread of a {@link MessageReader}, which fills it, and the
 * thread of a flow, which waits in {@link #take}. Its partitions are not read while it is full.
 */
public final class Subscription {
  private static final Turns TURNS = new Turns(2 * Runtime.getRuntime().availableProcessors());

  private final MessageReader reader;
  final String topic;
  /** Whether a change of the number of partitions ends the subscription. */
  final boolean isWhole;
  private final Set<Integer> numbers;

  private final int maxMessages;
  private final long maxBytes;
  private final Queue<ConsumerRecord<byte[], byte[]>> buffer = new ArrayDeque<>();
  private long bytes;
  /** Partition → number of its messages in the buffer. */
  private final Map<Integer, Integer> counts = new HashMap<>();
  /** Partition → offset after everything in the buffer, for partitions that have advanced since the last batch. */
  private final Map<Integer, Long> next = new TreeMap<>();
  /** Partition → offset after everything that has been read. */
  private final Map<Integer, Long> read = new HashMap<>();
  /** Seeks that the reader has not applied yet: what it has fetched so far does not count. */
  private int pendingSeeks;
  private List<ConsumerRecord<byte[], byte[]>> taken = List.of();
  private Map<Integer, Long> takenOffsets = Map.of();
  private boolean isWoken;
  private Exception failure;

  Subscription(
      MessageReader reader,
      String topic,
      Map<Integer, Number> offsets,
      boolean isWhole,
      int maxMessages,
      long maxBytes) {
    this.reader = reader;
    this.topic = topic;
    this.numbers = Set.copyOf(offsets.keySet());
    noteRead(offsets);
    this.isWhole = isWhole;
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
  }

  // ── for the flow ──────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Waits until there are {@code least} messages, or the buffer is full, and takes at most {@code most} of them. With
   * {@code least} 1, offsets that advance without a message count too. False after {@code milliseconds}, when
   * {@link #wake} is called, and when there are more messages than the buffer holds but fewer than {@code most}: see
   * {@link #isFull}.
   *
   * <p>The messages are those of {@link #taken} until the next call, and the offsets after them {@link #takenOffsets}.
   */
  boolean take(long milliseconds, int least, int most) throws Exception {
    TURNS.give(this);
    if (!await(milliseconds, least)) {
      return false;
    }
    TURNS.take(this);
    synchronized (this) {
      if (isFull() && most > maxMessages) {
        return false;
      }
      remove(most);
      return true;
    }
  }

  /** Waits for {@code least} messages; false after {@code milliseconds} and when {@link #wake} is called. */
  synchronized boolean await(long milliseconds, int least) throws Exception {
    taken = List.of();
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    while (!isWoken && failure == null && !isReady(least)) {
      long left = until - System.nanoTime();
      if (left <= 0) {
        return false;
      }
      TimeUnit.NANOSECONDS.timedWait(this, left);
    }
    if (failure != null) {
      throw failure;
    }
    boolean hasMessages = !isWoken;
    isWoken = false;
    return hasMessages;
  }

  /** Waits, until {@link #wake} is called. */
  public synchronized void sleep(long milliseconds) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    while (!isWoken && failure == null && System.nanoTime() < until) {
      TimeUnit.NANOSECONDS.timedWait(this, until - System.nanoTime());
    }
    isWoken = false;
  }

  /** Ends the current call of {@link #take}, or the next one. */
  public synchronized void wake() {
    isWoken = true;
    notifyAll();
  }

  /** Whether there are more messages than the buffer holds. */
  public synchronized boolean isFull() {
    return buffer.size() >= maxMessages || bytes >= maxBytes;
  }

  /** Drops the buffer and continues at {@code offsets} (partition → offset). */
  public void seek(Map<Integer, Number> offsets) {
    synchronized (this) {
      buffer.clear();
      bytes = 0;
      counts.clear();
      next.clear();
      noteRead(offsets);
      pendingSeeks++;
    }
    reader.seek(this, Map.copyOf(offsets));
  }

  public void close() {
    TURNS.give(this);
    reader.remove(this);
  }

  private boolean isReady(int least) {
    return buffer.size() >= least || isFull() || (least <= 1 && !next.isEmpty());
  }

  private void remove(int most) {
    boolean wasFull = isFull();
    int size = Math.min(most, buffer.size());
    List<ConsumerRecord<byte[], byte[]>> messages = new ArrayList<>(size);
    Map<Integer, Long> after = new TreeMap<>();
    for (int number = 0; number < size; number++) {
      var message = buffer.remove();
      messages.add(message);
      bytes -= sizeOf(message);
      counts.merge(message.partition(), -1, Integer::sum);
      after.put(message.partition(), message.offset() + 1);
    }
    next.entrySet().removeIf(partition -> {
      boolean isEmpty = counts.getOrDefault(partition.getKey(), 0) == 0;
      if (isEmpty) {
        after.put(partition.getKey(), partition.getValue());
      }
      return isEmpty;
    });
    if (wasFull && !isFull()) {
      reader.resume(this);
    }
    taken = messages;
    takenOffsets = after;
  }

  // ── for the plan ──────────────────────────────────────────────────────────────────────────────────────────

  /** The messages that were taken last, in the order in which they are delivered. */
  synchronized List<ConsumerRecord<byte[], byte[]>> taken() {
    return taken;
  }

  /** How many they are. */
  synchronized int takenCount() {
    return taken.size();
  }

  /** Partition → offset after them, for partitions that have advanced. */
  synchronized Map<Integer, Long> takenOffsets() {
    return takenOffsets;
  }

  // ── for the reader ────────────────────────────────────────────────────────────────────────────────────────

  synchronized void add(int partition, List<ConsumerRecord<byte[], byte[]>> messages, long after) {
    if (pendingSeeks > 0 || read.put(partition, after) == after) {
      return;
    }
    for (var message : messages) {
      buffer.add(message);
      bytes += sizeOf(message);
    }
    counts.merge(partition, messages.size(), Integer::sum);
    next.put(partition, after);
    notifyAll();
  }

  synchronized void sought() {
    pendingSeeks--;
  }

  synchronized void fail(Exception error) {
    failure = error;
    notifyAll();
  }

  boolean overlaps(String other, Set<Integer> partitions) {
    return topic.equals(other) && !Collections.disjoint(numbers, partitions);
  }

  List<TopicPartition> partitions() {
    return numbers.stream().map(number -> new TopicPartition(topic, number)).toList();
  }

  private void noteRead(Map<Integer, Number> offsets) {
    offsets.forEach((partition, offset) -> read.put(partition, offset.longValue()));
  }

  private static long sizeOf(ConsumerRecord<byte[], byte[]> message) {
    return Math.max(0, message.serializedKeySize()) + Math.max(0, message.serializedValueSize());
  }
}
