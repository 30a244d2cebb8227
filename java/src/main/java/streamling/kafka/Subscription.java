package streamling.kafka;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import streamling.kafka.Chunk.Slice;

/**
 * The messages of one stream: a bounded buffer between the thread of a {@link MessageReader}, which fills it, and the
 * {@link BatchLoop} of the stream. Its partitions are not read for it while it is full.
 */
public final class Subscription {
  private static final long SLOW_NANOS = TimeUnit.SECONDS.toNanos(10);

  /** The reader that fills the buffer. It changes when the stream joins others, or falls behind them. */
  private volatile MessageReader reader;
  final String topic;
  /** Whether a change of the number of partitions ends the subscription. */
  final boolean isWhole;
  private final Set<Integer> numbers;
  private final List<TopicPartition> partitions;

  private final int maxMessages;
  private final long maxBytes;
  private final Deque<Slice> buffer = new ArrayDeque<>();
  private int size;
  private long bytes;
  /** Partition → number of its messages in the buffer. */
  private final Map<Integer, Integer> counts = new HashMap<>();
  /** Partition → offset after everything in the buffer, for partitions that have advanced since the last batch. */
  private final Map<Integer, Long> next = new TreeMap<>();
  /** Partition → offset after everything that has been read. */
  private final Map<Integer, Long> read = new HashMap<>();
  /** Seeks that the reader has not applied yet: what it has fetched so far does not count. */
  private int pendingSeeks;
  private List<Slice> taken = List.of();
  private int takenCount;
  private Map<Integer, Long> takenOffsets = Map.of();
  private Exception failure;
  private boolean isClosed;
  private volatile long slowUntil = System.nanoTime();
  /** Called when there is something new. */
  private volatile Runnable listener = () -> {};

  Subscription(
      MessageReader reader,
      String topic,
      Map<Integer, Number> offsets,
      boolean isWhole,
      int maxMessages,
      long maxBytes) {
    this.reader = reader;
    this.topic = topic;
    numbers = Set.copyOf(offsets.keySet());
    partitions = numbers.stream().map(number -> new TopicPartition(topic, number)).toList();
    noteRead(offsets);
    this.isWhole = isWhole;
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
  }

  // ── for the loop ──────────────────────────────────────────────────────────────────────────────────────────

  void onChange(Runnable called) {
    listener = called;
  }

  /**
   * Whether there are {@code least} messages, or the buffer is full. With {@code least} 1, offsets that advance without a
   * message count, too.
   */
  synchronized boolean isReady(int least) {
    return size >= least || isFull() || (least <= 1 && !next.isEmpty());
  }

  /** Whether there are more messages than the buffer holds. */
  public synchronized boolean isFull() {
    return size >= maxMessages || bytes >= maxBytes;
  }

  /** Whether there are more messages than the buffer holds, which holds fewer than {@code most}. */
  synchronized boolean isBehind(int most) {
    return isFull() && most > maxMessages;
  }

  /** Takes at most {@code most} messages: those of {@link #taken} until the next call. */
  synchronized void take(int most) {
    boolean wasFull = isFull();
    List<Slice> messages = new ArrayList<>();
    Map<Integer, Long> after = new TreeMap<>();
    takenCount = 0;
    while (takenCount < most && !buffer.isEmpty()) {
      Slice first = buffer.remove();
      int wanted = Math.min(first.size(), most - takenCount);
      var part = new Slice(first.chunk(), first.from(), first.from() + wanted);
      if (wanted < first.size()) {
        buffer.addFirst(new Slice(first.chunk(), part.to(), first.to()));
      }
      messages.add(part);
      takenCount += wanted;
      bytes -= part.bytes();
      int partition = first.chunk().partition;
      counts.merge(partition, -wanted, Integer::sum);
      after.put(partition, first.chunk().messages.get(part.to() - 1).offset() + 1);
    }
    size -= takenCount;
    next.entrySet().removeIf(partition -> {
      boolean isEmpty = counts.getOrDefault(partition.getKey(), 0) == 0;
      if (isEmpty) {
        after.put(partition.getKey(), partition.getValue());
      }
      return isEmpty;
    });
    if (wasFull && !isFull()) {
      reader.command(this, MessageReader::resume);
    }
    taken = messages;
    takenOffsets = after;
  }

  /** Returns the messages that were taken last, in the order in which they are delivered. */
  synchronized List<Slice> taken() {
    return taken;
  }

  /** Returns how many they are. */
  synchronized int takenCount() {
    return takenCount;
  }

  /** Partition → offset after them, for partitions that have advanced. */
  synchronized Map<Integer, Long> takenOffsets() {
    return takenOffsets;
  }

  synchronized Exception failure() {
    return failure;
  }

  /** Drops the buffer and continues at {@code offsets} (partition → offset). */
  public void seek(Map<Integer, Number> offsets) {
    synchronized (this) {
      buffer.clear();
      size = 0;
      bytes = 0;
      counts.clear();
      next.clear();
      noteRead(offsets);
      pendingSeeks++;
    }
    reader.command(this, MessageReader::seek);
  }

  public void close() {
    synchronized (this) {
      isClosed = true;
    }
    reader.command(this, MessageReader::remove);
  }

  // ── for the reader ────────────────────────────────────────────────────────────────────────────────────────

  MessageReader reader() {
    return reader;
  }

  void moveTo(MessageReader other) {
    reader = other;
  }

  /** Its buffer was full while others went on. */
  void noteSlow() {
    slowUntil = System.nanoTime() + SLOW_NANOS;
  }

  boolean isSlow() {
    return System.nanoTime() < slowUntil;
  }

  /** Adds the messages that have not been read yet; {@code after} is the offset after all of them. */
  synchronized void add(Chunk chunk, long after) {
    long from = read.get(chunk.partition);
    if (pendingSeeks > 0 || after <= from) {
      return;
    }
    read.put(chunk.partition, after);
    var slice = new Slice(chunk, chunk.indexOf(from), chunk.messages.size());
    if (slice.size() > 0) {
      buffer.add(slice);
      size += slice.size();
      bytes += slice.bytes();
      counts.merge(chunk.partition, slice.size(), Integer::sum);
    }
    next.put(chunk.partition, after);
  }

  /** Calls the listener, without the lock of this object. */
  void reportChange() {
    listener.run();
  }

  synchronized void sought() {
    pendingSeeks--;
  }

  void fail(Exception error) {
    synchronized (this) {
      failure = error;
    }
    reportChange();
  }

  synchronized boolean isClosed() {
    return isClosed;
  }

  List<TopicPartition> partitions() {
    return partitions;
  }

  /** Returns the offset after everything that has been read of a partition. */
  synchronized long readOffset(TopicPartition partition) {
    return read.get(partition.partition());
  }

  private void noteRead(Map<Integer, Number> offsets) {
    offsets.forEach((partition, offset) -> read.put(partition, offset.longValue()));
  }
}
