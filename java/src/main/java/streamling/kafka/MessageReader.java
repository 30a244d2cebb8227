package streamling.kafka;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
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
 * session, however many streams there are. An idle stream therefore costs almost nothing.
 *
 * <p>Only the reader's thread uses the consumer. Others leave commands in a queue and wake it up.
 */
public final class MessageReader implements Runnable {
  /** Readers that streams can share. */
  private record Kind(Map<String, Object> settings, long paceMilliseconds) {}

  /** The readers of each kind. Guarded by itself, like the subscriptions of all readers. */
  private static final Map<Kind, List<MessageReader>> READERS = new HashMap<>();

  private static final Duration POLL = Duration.ofSeconds(1);
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

  private final Kind kind;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private final BrokerWatch brokers;
  private final Set<Subscription> subscriptions = new HashSet<>();
  private final BlockingQueue<Runnable> commands = new LinkedBlockingQueue<>();
  /** Only used by the reader's thread, like everything below. */
  private final Map<TopicPartition, Subscription> owners = new HashMap<>();
  private long checkedAt;
  /** Time of the next poll. */
  private long nextPoll = System.nanoTime();

  private MessageReader(Kind kind) {
    this.kind = kind;
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
    synchronized (READERS) {
      MessageReader reader = free(new Kind(Map.copyOf(settings), paceMilliseconds), topic, offsets.keySet());
      var subscription = new Subscription(reader, topic, offsets, isWhole, maxMessages, maxBytes);
      reader.subscriptions.add(subscription);
      reader.command(() -> reader.add(subscription, offsets));
      return subscription;
    }
  }

  /** A reader that reads none of these partitions: the consumer has one position for each. */
  private static MessageReader free(Kind kind, String topic, Set<Integer> partitions) {
    List<MessageReader> readers = READERS.computeIfAbsent(kind, key -> new ArrayList<>());
    for (MessageReader reader : readers) {
      if (reader.subscriptions.stream().noneMatch(each -> each.overlaps(topic, partitions))) {
        return reader;
      }
    }
    var reader = new MessageReader(kind);
    readers.add(reader);
    var thread = new Thread(reader, "kafka reader");
    thread.setDaemon(true);
    thread.start();
    return reader;
  }

  // ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

  void seek(Subscription subscription, Map<Integer, Number> offsets) {
    command(
        () -> {
          if (owners.containsValue(subscription)) {
            moveTo(subscription, offsets);
            subscription.sought();
            consumer.resume(subscription.partitions());
          }
        });
  }

  void resume(Subscription subscription) {
    command(
        () -> {
          if (owners.containsValue(subscription)) {
            consumer.resume(subscription.partitions());
          }
        });
  }

  void remove(Subscription subscription) {
    synchronized (READERS) {
      subscriptions.remove(subscription);
    }
    command(() -> drop(subscription));
  }

  private void command(Runnable command) {
    commands.add(command);
    consumer.wakeup();
  }

  // ── the thread ────────────────────────────────────────────────────────────────────────────────────────────

  @Override
  public void run() {
    try {
      while (applyCommands()) {
        if (!owners.isEmpty()) {
          read();
        }
      }
    } catch (Exception error) {
      failAll(error);
    } finally {
      consumer.close(Duration.ZERO);
    }
  }

  /**
   * Applies all commands until the next poll, and waits for one if there is nothing to read. False if none comes: the
   * reader ends.
   */
  private boolean applyCommands() throws InterruptedException {
    if (owners.isEmpty()) {
      Runnable first = commands.poll(KEPT_SECONDS, TimeUnit.SECONDS);
      if (first == null) {
        return !hasEnded();
      }
      first.run();
    }
    Runnable command;
    while ((command = commands.poll(nextPoll - System.nanoTime(), TimeUnit.NANOSECONDS)) != null) {
      command.run();
    }
    return true;
  }

  private boolean hasEnded() {
    synchronized (READERS) {
      if (!subscriptions.isEmpty()) {
        return false;
      }
      retire();
      return true;
    }
  }

  private void read() {
    try {
      pollAndDistribute();
      check();
    } catch (WakeupException woken) {
      return; // there are commands
    } catch (InvalidOffsetException invalid) {
      failOwners(invalid.partitions()::contains, invalid);
    } catch (TopicAuthorizationException denied) {
      failOwners(partition -> denied.unauthorizedTopics().contains(partition.topic()), denied);
    }
  }

  private void pollAndDistribute() {
    long began = System.nanoTime();
    ConsumerRecords<byte[], byte[]> first = consumer.poll(POLL);
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
      distribute(first);
    }
    distribute(rest);
    if (isPaced) {
      nextPoll = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(kind.paceMilliseconds);
    }
  }

  private void distribute(ConsumerRecords<byte[], byte[]> records) {
    records
        .nextOffsets()
        .forEach(
            (partition, next) -> {
              Subscription owner = owners.get(partition);
              if (owner != null) {
                owner.add(partition.partition(), records.records(partition), next.offset());
                if (owner.isFull()) {
                  consumer.pause(owner.partitions());
                }
              }
            });
  }

  private void check() {
    long now = System.nanoTime();
    if (now - checkedAt < CHECK_NANOS) {
      return;
    }
    checkedAt = now;
    brokers.check(now, consumer.paused().size() < owners.size());
    Set.copyOf(owners.values()).forEach(this::checkTopic);
  }

  /** The consumer refreshes what it knows about its topics by itself; asking for it costs nothing. */
  private void checkTopic(Subscription subscription) {
    int partitions = partitionCount(subscription);
    if (partitions == 0) {
      fail(subscription, new UnknownTopicOrPartitionException("the topic does not exist"));
    } else if (subscription.isWhole && partitions > subscription.partitions().size()) {
      fail(subscription, new NewPartitionsException());
    }
  }

  private int partitionCount(Subscription subscription) {
    try {
      var partitions = consumer.partitionsFor(subscription.topic, METADATA);
      return partitions == null ? 0 : partitions.size();
    } catch (TimeoutException unavailable) {
      return subscription.partitions().size(); // not known at the moment
    }
  }

  private void add(Subscription subscription, Map<Integer, Number> offsets) {
    subscription.partitions().forEach(partition -> owners.put(partition, subscription));
    consumer.assign(owners.keySet());
    moveTo(subscription, offsets);
    brokers.restart(System.nanoTime());
  }

  private void moveTo(Subscription subscription, Map<Integer, Number> offsets) {
    offsets.forEach(
        (partition, offset) ->
            consumer.seek(new TopicPartition(subscription.topic, partition), offset.longValue()));
  }

  // ── the end ───────────────────────────────────────────────────────────────────────────────────────────────

  private void failOwners(Predicate<TopicPartition> affected, Exception error) {
    Set<Subscription> failed = new HashSet<>();
    owners.forEach(
        (partition, owner) -> {
          if (affected.test(partition)) {
            failed.add(owner);
          }
        });
    failed.forEach(owner -> fail(owner, error));
  }

  private void fail(Subscription subscription, Exception error) {
    drop(subscription);
    subscription.fail(error);
  }

  private void failAll(Exception error) {
    Collection<Subscription> failed;
    synchronized (READERS) {
      failed = List.copyOf(subscriptions);
      retire();
    }
    failed.forEach(subscription -> subscription.fail(error));
  }

  private void drop(Subscription subscription) {
    owners.values().removeIf(owner -> owner == subscription);
    consumer.assign(owners.keySet());
    synchronized (READERS) {
      subscriptions.remove(subscription);
    }
  }

  private void retire() {
    subscriptions.clear();
    READERS.computeIfPresent(
        kind,
        (key, readers) -> {
          readers.remove(this);
          return readers.isEmpty() ? null : readers;
        });
  }
}
