package streamling.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics for all streams of this JVM that have the same client settings: one consumer, one thread and one fetch
 * session, however many streams there are. Streams that read the same partition and are at the same place share its
 * messages.
 *
 * <p>A stream joins the others at its own offset: it skips what it has already, and for what it lacks, up to {@link
 * #MOST_REWOUND} messages, the consumer goes back, and the others skip them. A stream that lacks more reads alone, with a
 * consumer of its own, until it has caught up. So does one that is too slow: its buffer is bounded, and while it is full,
 * the others go on without it.
 *
 * <p>Only the reader's thread uses the consumer. Others leave commands in a queue and wake it up.
 */
public final class MessageReader implements Runnable {
  /** What a reader does for a stream, on its thread. */
  private record Command(Subscription stream, BiConsumer<MessageReader, Subscription> action) {}

  /** Readers that streams can share. */
  private record Kind(Map<String, Object> settings, long paceMilliseconds) {}

  /** The common reader of each kind. Guarded by itself, like the streams of common readers. */
  private static final Map<Kind, MessageReader> COMMON = new HashMap<>();

  private static final Duration POLL = Duration.ofSeconds(1);
  private static final Duration SHORT_POLL = Duration.ofMillis(20);
  /** Only needed for a topic that the consumer no longer knows. */
  private static final Duration METADATA = Duration.ofSeconds(2);
  /** Time between two checks of brokers and topics. */
  private static final long CHECK_NANOS = TimeUnit.SECONDS.toNanos(1);
  /** Time for which a consumer without a stream is kept: a stream that is restarted uses it again. */
  private static final long KEPT_SECONDS = 2;
  /**
   * Polls that return more messages follow each other at once. A poll costs the same for one message and for hundreds,
   * so fewer of them wait for the next ones.
   */
  private static final int LARGE_POLL = 1000;
  /** Time for messages that have arrived at the broker while the reader waited for the next poll. */
  private static final Duration REST = Duration.ofMillis(2);
  /** A poll that takes less time had its messages already. */
  private static final long AT_ONCE_NANOS = TimeUnit.MILLISECONDS.toNanos(1);
  /** With more streams, a batch costs as much as the pace of a few streams allows. */
  private static final int MANY_STREAMS = 200;
  /** Messages that are read again for streams that join; and how many for one that was too slow before. */
  private static final long MOST_REWOUND = 10_000;
  private static final long MOST_REWOUND_FOR_SLOW = 500;
  private static final long REWIND_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final Kind kind;
  /** The common reader to which the only stream of this one returns; null: this is the common one. */
  private final MessageReader home;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final BrokerWatch brokers;
  /** The streams of a common reader, also those that read alone at the moment. */
  private final Set<Subscription> streams = new HashSet<>();
  private final BlockingQueue<Command> commands = new LinkedBlockingQueue<>();
  private volatile boolean hasEnded;
  /** Partition → offset of the next message, also for other readers. */
  private final Map<TopicPartition, Long> positions = new ConcurrentHashMap<>();
  /** Partition → the streams that get its messages. Only used by the reader's thread, like everything below. */
  private final Map<TopicPartition, Set<Subscription>> members = new HashMap<>();
  /** Streams for which the consumer has to go back. */
  private final List<Subscription> joining = new ArrayList<>();
  private long rewoundAt = System.nanoTime() - REWIND_PAUSE_NANOS;
  private long checkedAt;
  /** Time of the next poll. */
  private long nextPoll = System.nanoTime();

  private MessageReader(Kind kind, MessageReader home) {
    this.kind = kind;
    this.home = home;
    consumer = new KafkaConsumer<>(kind.settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    brokers = new BrokerWatch(consumer);
  }

  /**
   * Reads a topic from {@code offsets} (partition → offset) on. The buffer holds about {@code maxMessages} messages or
   * {@code maxBytes} bytes. If {@code isWhole}, a new partition of the topic ends the subscription with an error. Messages
   * that follow others within {@code paceMilliseconds} are delivered together, after this time.
   */
  public static Subscription subscribe(
      Map<String, Object> settings,
      String topic,
      Map<Integer, Number> offsets,
      boolean isWhole,
      int maxMessages,
      long maxBytes,
      long paceMilliseconds) {
    synchronized (COMMON) {
      var kind = new Kind(Map.copyOf(settings), paceMilliseconds);
      MessageReader reader = COMMON.get(kind);
      if (reader == null) {
        reader = new MessageReader(kind, null);
        COMMON.put(kind, reader);
        reader.start();
      }
      var stream = new Subscription(reader, topic, offsets, isWhole, maxMessages, maxBytes);
      reader.streams.add(stream);
      reader.command(stream, MessageReader::join);
      return stream;
    }
  }

  private void start() {
    var thread = new Thread(this, "kafka reader");
    thread.setDaemon(true);
    thread.start();
  }

  /** Lets the reader of {@code stream} do something on its thread; it may be another one by then. */
  void command(Subscription stream, BiConsumer<MessageReader, Subscription> action) {
    commands.add(new Command(stream, action));
    if (hasEnded) {
      passOnCommands();
    } else {
      consumer.wakeup();
    }
  }

  private void apply(Command command) {
    MessageReader reader = command.stream.reader();
    if (reader == this) {
      command.action.accept(this, command.stream);
    } else {
      reader.command(command.stream, command.action);
    }
  }

  /** Passes on what has come after the end; a stream that this reader still has failed with it. */
  private void passOnCommands() {
    for (Command command; (command = commands.poll()) != null; ) {
      if (command.stream.reader() != this) {
        apply(command);
      }
    }
  }

  // ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads for {@code stream}, which has made room in its buffer. */
  void resume(Subscription stream) {
    if (isMember(stream)) {
      consumer.resume(stream.partitions());
    } else {
      join(stream);
    }
  }

  void seek(Subscription stream) {
    stream.sought();
    if (isMember(stream) && isAlone(stream)) {
      stream.partitions().forEach(partition -> seek(partition, stream.readOffset(partition)));
      consumer.resume(stream.partitions());
    } else {
      drop(stream);
      join(stream);
    }
  }

  void remove(Subscription stream) {
    drop(stream);
    forget(stream);
  }

  /** Gives {@code stream} the messages from its offsets on, here or with a reader of its own. */
  private void join(Subscription stream) {
    if (stream.isClosed() || stream.failure() != null) {
      return;
    }
    long lacking = lacking(stream);
    if (lacking > (stream.isSlow() ? MOST_REWOUND_FOR_SLOW : MOST_REWOUND)) {
      readAlone(stream);
    } else if (lacking > 0 && System.nanoTime() - rewoundAt < REWIND_PAUSE_NANOS) {
      joining.add(stream);
    } else {
      add(stream);
    }
  }

  /** Returns the number of messages that {@code stream} needs and the consumer has passed. */
  private long lacking(Subscription stream) {
    return stream.partitions().stream()
        .mapToLong(partition -> Math.max(0, positions.getOrDefault(partition, 0L) - stream.readOffset(partition)))
        .sum();
  }

  private void add(Subscription stream) {
    Map<TopicPartition, Long> targets = new HashMap<>();
    for (TopicPartition partition : stream.partitions()) {
      long offset = stream.readOffset(partition);
      Set<Subscription> others = members.computeIfAbsent(partition, key -> new LinkedHashSet<>());
      if (others.isEmpty() || offset < positions.get(partition)) {
        targets.put(partition, offset);
      }
      others.add(stream);
    }
    if (!consumer.assignment().containsAll(targets.keySet())) {
      consumer.assign(members.keySet());
    } else if (!targets.isEmpty()) {
      rewoundAt = System.nanoTime();
    }
    targets.forEach(this::seek);
    leaveFull(stream);
    brokers.restart(System.nanoTime());
  }

  /** The partitions of {@code stream} are read, also those that were paused for another stream whose buffer is full. */
  private void leaveFull(Subscription stream) {
    Set<Subscription> full = new HashSet<>();
    stream.partitions().forEach(
        partition -> members.get(partition).stream().filter(other -> other != stream && other.isFull()).forEach(full::add));
    full.forEach(this::drop);
    consumer.resume(stream.partitions());
  }

  private void seek(TopicPartition partition, long offset) {
    consumer.seek(partition, offset);
    positions.put(partition, offset);
  }

  private void addWaiting() {
    if (!joining.isEmpty() && System.nanoTime() - rewoundAt >= REWIND_PAUSE_NANOS) {
      List<Subscription> waiting = List.copyOf(joining);
      joining.clear();
      waiting.stream().filter(stream -> !stream.isClosed()).forEach(this::add);
    }
  }

  private void readAlone(Subscription stream) {
    if (home != null) {
      throw new IllegalStateException("a reader for one stream has passed its offsets");
    }
    var own = new MessageReader(kind, this);
    own.add(stream);
    stream.moveTo(own);
    own.start();
  }

  /** Lets a stream that has read everything that the common reader has read join the others. */
  private void returnHome() {
    for (Subscription stream : all()) {
      boolean hasCaughtUp =
          !stream.isFull()
              && stream.partitions().stream()
                  .allMatch(partition -> home.positions.getOrDefault(partition, 0L) <= stream.readOffset(partition));
      if (hasCaughtUp) {
        drop(stream);
        stream.moveTo(home);
        home.command(stream, MessageReader::join);
      }
    }
  }

  private boolean isMember(Subscription stream) {
    var first = members.get(stream.partitions().get(0));
    return first != null && first.contains(stream);
  }

  private boolean isAlone(Subscription stream) {
    return stream.partitions().stream().allMatch(partition -> members.get(partition).size() == 1);
  }

  private Set<Subscription> all() {
    Set<Subscription> found = new LinkedHashSet<>();
    members.values().forEach(found::addAll);
    return found;
  }

  private void drop(Subscription stream) {
    joining.remove(stream);
    boolean isLast = false;
    for (TopicPartition partition : stream.partitions()) {
      Set<Subscription> others = members.get(partition);
      if (others != null && others.remove(stream) && others.isEmpty()) {
        members.remove(partition);
        positions.remove(partition);
        isLast = true;
      }
    }
    if (isLast) {
      consumer.assign(members.keySet());
    }
  }

  // ── the thread ────────────────────────────────────────────────────────────────────────────────────────────

  @Override
  public void run() {
    try {
      while (applyCommands()) {
        addWaiting();
        if (!members.isEmpty()) {
          read();
        }
        BatchLoop.WORKERS.check();
      }
    } catch (Exception error) {
      failAll(error);
    } finally {
      hasEnded = true;
      passOnCommands();
      consumer.close(Duration.ZERO);
    }
  }

  /**
   * Applies all commands until the next poll, and waits for one if there is nothing to read. False if none comes: the
   * reader ends.
   */
  private boolean applyCommands() throws InterruptedException {
    if (members.isEmpty() && joining.isEmpty()) {
      Command first = commands.poll(KEPT_SECONDS, TimeUnit.SECONDS);
      if (first == null) {
        return !isUnused();
      }
      apply(first);
    }
    Command command;
    while ((command = commands.poll(nextPoll - System.nanoTime(), TimeUnit.NANOSECONDS)) != null) {
      apply(command);
    }
    return true;
  }

  private boolean isUnused() {
    synchronized (COMMON) {
      if (home == null && (!streams.isEmpty() || !commands.isEmpty())) {
        return false;
      }
      COMMON.remove(kind, this);
      return true;
    }
  }

  private void forget(Subscription stream) {
    MessageReader common = home == null ? this : home;
    synchronized (COMMON) {
      common.streams.remove(stream);
    }
  }

  private void read() {
    try {
      pollAndDistribute();
      check();
      if (home != null) {
        returnHome();
      }
    } catch (WakeupException woken) {
      return; // there are commands
    } catch (InvalidOffsetException invalid) {
      invalid.partitions().forEach(partition -> failThoseAt(partition, invalid));
    } catch (TopicAuthorizationException denied) {
      all().stream().filter(stream -> denied.unauthorizedTopics().contains(stream.topic)).forEach(stream -> fail(stream, denied));
    }
  }

  private void pollAndDistribute() {
    long began = System.nanoTime();
    ConsumerRecords<byte[], byte[]> first = consumer.poll(joining.isEmpty() ? POLL : SHORT_POLL);
    boolean isPaced = kind.paceMilliseconds > 0 && !first.isEmpty() && first.count() < LARGE_POLL;
    ConsumerRecords<byte[], byte[]> rest = ConsumerRecords.empty();
    try {
      if (isPaced && System.nanoTime() - began < AT_ONCE_NANOS) {
        // they answer the fetch of the last poll, and have waited here: what came after them is on its way
        rest = consumer.poll(REST);
      }
    } catch (WakeupException woken) {
      // there are commands, which are applied next
    } finally {
      Set<Subscription> changed = new LinkedHashSet<>();
      distribute(first, changed);
      distribute(rest, changed);
      changed.forEach(Subscription::reportChange);
    }
    if (isPaced) {
      nextPoll = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(kind.paceMilliseconds * paceFactor());
    }
  }

  private int paceFactor() {
    int most = members.values().stream().mapToInt(Set::size).max().orElse(0);
    return 1 + most / MANY_STREAMS;
  }

  private void distribute(ConsumerRecords<byte[], byte[]> records, Set<Subscription> changed) {
    records
        .nextOffsets()
        .forEach(
            (partition, next) -> {
              Set<Subscription> takers = members.get(partition);
              if (takers != null) {
                var chunk = new Chunk(partition.partition(), records.records(partition), takers.size() > 1);
                positions.put(partition, next.offset());
                takers.forEach(stream -> stream.add(chunk, next.offset()));
                changed.addAll(takers);
                takers.stream().filter(Subscription::isFull).toList().forEach(this::leaveBehind);
              }
            });
  }

  /** The buffer of {@code stream} is full: the others go on without it. */
  private void leaveBehind(Subscription stream) {
    if (isAlone(stream)) {
      consumer.pause(stream.partitions());
    } else {
      stream.noteSlow();
      drop(stream);
    }
  }

  private void check() {
    long now = System.nanoTime();
    if (now - checkedAt < CHECK_NANOS) {
      return;
    }
    checkedAt = now;
    brokers.check(now, consumer.paused().size() < members.size());
    Map<String, Integer> counts = new HashMap<>();
    for (Subscription stream : all()) {
      checkTopic(stream, counts.computeIfAbsent(stream.topic, topic -> partitionCount(stream)));
    }
  }

  /** The consumer refreshes what it knows about its topics by itself; asking for it costs nothing. */
  private void checkTopic(Subscription stream, int partitions) {
    if (partitions == 0) {
      fail(stream, new UnknownTopicOrPartitionException("the topic does not exist"));
    } else if (stream.isWhole && partitions > stream.partitions().size()) {
      fail(stream, new NewPartitionsException());
    }
  }

  private int partitionCount(Subscription stream) {
    try {
      var partitions = consumer.partitionsFor(stream.topic, METADATA);
      return partitions == null ? 0 : partitions.size();
    } catch (TimeoutException unavailable) {
      return stream.partitions().size(); // not known at the moment
    }
  }

  // ── the end ───────────────────────────────────────────────────────────────────────────────────────────────

  /** The broker does not have the next message: that concerns streams that wait for it, and not those that skip it. */
  private void failThoseAt(TopicPartition partition, Exception error) {
    long position = positions.getOrDefault(partition, Long.MAX_VALUE);
    List.copyOf(members.getOrDefault(partition, Set.of())).stream()
        .filter(stream -> stream.readOffset(partition) <= position)
        .forEach(stream -> fail(stream, error));
    members.getOrDefault(partition, Set.of()).stream()
        .mapToLong(stream -> stream.readOffset(partition))
        .min()
        .ifPresent(offset -> seek(partition, offset));
  }

  private void fail(Subscription stream, Exception error) {
    drop(stream);
    forget(stream);
    stream.fail(error);
  }

  private void failAll(Exception error) {
    synchronized (COMMON) {
      COMMON.remove(kind, this);
    }
    Set<Subscription> failed = all();
    failed.addAll(joining);
    failed.forEach(stream -> stream.fail(error));
  }
}
