package streamling;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
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
  private final Set numbers;

  private final int maxMessages;
  private final long maxBytes;
  private final ArrayDeque buffer = new ArrayDeque();
  private long bytes;
  /** Partition → number of its messages in the buffer. */
  private final Map counts = new HashMap();
  /** Partition → offset after everything in the buffer, for partitions that have advanced since the last batch. */
  private final Map next = new TreeMap();
  /** Partition → offset after everything that has been read. */
  private final Map read;
  /** Seeks that the reader has not applied yet: what it has fetched so far does not count. */
  private int pendingSeeks;
  private List taken = Collections.EMPTY_LIST;
  private boolean isWoken;
  private Exception failure;

  Subscription(MessageReader reader, String topic, Map offsets, boolean isWhole, int maxMessages, long maxBytes) {
    this.reader = reader;
    this.topic = topic;
    this.numbers = Collections.unmodifiableSet(new HashSet(offsets.keySet()));
    this.read = new HashMap(offsets);
    this.isWhole = isWhole;
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
  }

  // ── for the flow ──────────────────────────────────────────────────────────────────────────────────────────

  /**
   * Waits until there are {@code least} messages, or the buffer is full, and takes at most {@code most} of them. With
   * {@code least} 1, offsets that advance without a message count too. Null after {@code milliseconds}, when
   * {@link #wake} is called, and when there are more messages than the buffer holds but fewer than {@code most}: see
   * {@link #isFull}.
   *
   * <p>Returns the number of messages and the offsets after them, for the partitions that have advanced:
   * {@code 12 0=17 3=4}. A text, because an object would take several calls from Python. The messages are those of
   * {@link #taken} until the next call.
   */
  public String take(long milliseconds, int least, int most) throws Exception {
    TURNS.give(this);
    if (!await(milliseconds, least)) {
      return null;
    }
    TURNS.take(this);
    synchronized (this) {
      return isFull() && most > maxMessages ? null : remove(most);
    }
  }

  /** Waits for {@code least} messages; false after {@code milliseconds} and when {@link #wake} is called. */
  synchronized boolean await(long milliseconds, int least) throws Exception {
    taken = Collections.EMPTY_LIST;
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
  public synchronized void sleep(long milliseconds) throws Exception {
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
  public void seek(Map offsets) {
    synchronized (this) {
      clear();
      read.putAll(offsets);
      pendingSeeks++;
    }
    reader.seek(this, new HashMap(offsets));
  }

  public void close() {
    TURNS.give(this);
    reader.remove(this);
  }

  private boolean isReady(int least) {
    return buffer.size() >= least || isFull() || (least <= 1 && !next.isEmpty());
  }

  private String remove(int most) {
    boolean wasFull = isFull();
    int size = Math.min(most, buffer.size());
    List records = new ArrayList(size);
    Map after = new TreeMap();
    for (int taken = 0; taken < size; taken++) {
      ConsumerRecord record = (ConsumerRecord) buffer.poll();
      Integer partition = Integer.valueOf(record.partition());
      records.add(record);
      bytes -= sizeOf(record);
      counts.put(partition, Integer.valueOf(((Integer) counts.get(partition)).intValue() - 1));
      after.put(partition, Long.valueOf(record.offset() + 1));
    }
    for (Iterator entries = next.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      Integer left = (Integer) counts.get(entry.getKey());
      if (left == null || left.intValue() == 0) {
        after.put(entry.getKey(), entry.getValue());
        entries.remove();
      }
    }
    if (wasFull && !isFull()) {
      reader.resume(this);
    }
    taken = records;
    return summary(size, after);
  }

  private static String summary(int count, Map offsets) {
    StringBuilder text = new StringBuilder().append(count);
    for (Iterator entries = offsets.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      text.append(' ').append(entry.getKey()).append('=').append(entry.getValue());
    }
    return text.toString();
  }

  // ── for the plan ──────────────────────────────────────────────────────────────────────────────────────────

  /** The messages that were taken last, in the order in which they are delivered. */
  synchronized List taken() {
    return taken;
  }

  // ── for the reader ────────────────────────────────────────────────────────────────────────────────────────

  synchronized void add(int partition, List records, long after) {
    Integer key = Integer.valueOf(partition);
    if (pendingSeeks > 0 || ((Number) read.put(key, Long.valueOf(after))).longValue() == after) {
      return;
    }
    for (int number = 0; number < records.size(); number++) {
      ConsumerRecord record = (ConsumerRecord) records.get(number);
      buffer.add(record);
      bytes += sizeOf(record);
    }
    Integer before = (Integer) counts.get(key);
    counts.put(key, Integer.valueOf((before == null ? 0 : before.intValue()) + records.size()));
    next.put(key, Long.valueOf(after));
    notifyAll();
  }

  synchronized void sought() {
    pendingSeeks--;
  }

  synchronized void fail(Exception error) {
    failure = error;
    notifyAll();
  }

  boolean overlaps(Set partitions) {
    return !Collections.disjoint(numbers, partitions);
  }

  List partitions() {
    List partitions = new ArrayList();
    for (Iterator all = numbers.iterator(); all.hasNext(); ) {
      partitions.add(new TopicPartition(topic, ((Integer) all.next()).intValue()));
    }
    return partitions;
  }

  private void clear() {
    buffer.clear();
    bytes = 0;
    counts.clear();
    next.clear();
  }

  private static long sizeOf(ConsumerRecord record) {
    return Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
  }
}
