package streamling;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
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
 * Only the reader's thread uses the consumer. Others leave commands in a queue and wake it up.
 */
public final class MessageReader implements Runnable {
  /** Client settings → the readers that have them. Guarded by itself, like the subscriptions of all readers. */
  private static final Map READERS = new HashMap();

  private static final Duration POLL = Duration.ofSeconds(1);
  /** Only needed for a topic that the consumer no longer knows. */
  private static final Duration METADATA = Duration.ofSeconds(2);
  /** Time between two checks of brokers and topics. */
  private static final long CHECK_NANOS = 1_000_000_000L;
  /** Time for which a consumer without a stream is kept: a stream that is restarted uses it again. */
  private static final long KEPT_SECONDS = 2;

  private final Map settings;
  private final KafkaConsumer consumer;
  private final BrokerWatch brokers;
  private final Set subscriptions = new HashSet();
  private final LinkedBlockingQueue commands = new LinkedBlockingQueue();
  /** Partition → its subscription; only used by the reader's thread, like everything below. */
  private final Map owners = new HashMap();
  private long checkedAt;

  private MessageReader(Map settings) {
    this.settings = settings;
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    consumer = new KafkaConsumer(settings, bytes, bytes);
    brokers = new BrokerWatch(consumer);
  }

  /**
   * Reads a topic from {@code offsets} (partition → offset) on. The buffer holds about {@code maxMessages} messages or
   * {@code maxBytes} bytes. If {@code isWhole}, a new partition of the topic ends the subscription with an error.
   */
  public static Subscription subscribe(
      Map settings, String topic, Map offsets, boolean isWhole, int maxMessages, long maxBytes) {
    synchronized (READERS) {
      MessageReader reader = free(settings, topic, offsets.keySet());
      Subscription subscription = new Subscription(reader, topic, offsets, isWhole, maxMessages, maxBytes);
      reader.subscriptions.add(subscription);
      reader.command(reader.new Command(Command.ADD, subscription, offsets));
      return subscription;
    }
  }

  /** A reader that reads none of these partitions: the consumer has one position for each. */
  private static MessageReader free(Map settings, String topic, Set partitions) {
    List readers = (List) READERS.get(settings);
    if (readers == null) {
      readers = new ArrayList();
      READERS.put(new HashMap(settings), readers);
    }
    for (int number = 0; number < readers.size(); number++) {
      MessageReader reader = (MessageReader) readers.get(number);
      if (!reader.reads(topic, partitions)) {
        return reader;
      }
    }
    MessageReader reader = new MessageReader(settings);
    readers.add(reader);
    Thread thread = new Thread(reader, "kafka reader");
    thread.setDaemon(true);
    thread.start();
    return reader;
  }

  private boolean reads(String topic, Set partitions) {
    for (Iterator all = subscriptions.iterator(); all.hasNext(); ) {
      Subscription subscription = (Subscription) all.next();
      if (subscription.topic.equals(topic) && subscription.overlaps(partitions)) {
        return true;
      }
    }
    return false;
  }

  // ── commands ──────────────────────────────────────────────────────────────────────────────────────────────

  void seek(Subscription subscription, Map offsets) {
    command(new Command(Command.SEEK, subscription, offsets));
  }

  void resume(Subscription subscription) {
    command(new Command(Command.RESUME, subscription, null));
  }

  void remove(Subscription subscription) {
    synchronized (READERS) {
      subscriptions.remove(subscription);
    }
    command(new Command(Command.REMOVE, subscription, null));
  }

  private void command(Command command) {
    commands.add(command);
    consumer.wakeup();
  }

  private final class Command {
    static final int ADD = 0;
    static final int SEEK = 1;
    static final int RESUME = 2;
    static final int REMOVE = 3;

    private final int kind;
    private final Subscription subscription;
    private final Map offsets;

    Command(int kind, Subscription subscription, Map offsets) {
      this.kind = kind;
      this.subscription = subscription;
      this.offsets = offsets;
    }

    void apply() {
      if (kind == REMOVE) {
        drop(subscription);
      } else if (kind == ADD) {
        add(subscription, offsets);
      } else if (isCurrent(subscription)) {
        if (kind == SEEK) {
          moveTo(subscription, offsets);
          subscription.sought();
        }
        consumer.resume(subscription.partitions());
      }
    }
  }

  // ── the thread ────────────────────────────────────────────────────────────────────────────────────────────

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

  /** Applies all commands, and waits for one if there is nothing to read. False if none comes: the reader ends. */
  private boolean applyCommands() throws InterruptedException {
    Command command = (Command) commands.poll(owners.isEmpty() ? KEPT_SECONDS : 0, TimeUnit.SECONDS);
    if (command == null && owners.isEmpty()) {
      return !hasEnded();
    }
    for (; command != null; command = (Command) commands.poll()) {
      command.apply();
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
      distribute(consumer.poll(POLL));
      check();
    } catch (WakeupException woken) {
      return; // there are commands
    } catch (InvalidOffsetException invalid) {
      failOwners(invalid.partitions(), invalid);
    } catch (TopicAuthorizationException denied) {
      failTopics(denied.unauthorizedTopics(), denied);
    }
  }

  private void distribute(ConsumerRecords records) {
    for (Iterator advanced = records.nextOffsets().entrySet().iterator(); advanced.hasNext(); ) {
      Map.Entry entry = (Map.Entry) advanced.next();
      TopicPartition partition = (TopicPartition) entry.getKey();
      Subscription owner = (Subscription) owners.get(partition);
      if (owner != null) {
        owner.add(partition.partition(), records.records(partition), ((OffsetAndMetadata) entry.getValue()).offset());
        if (owner.isFull()) {
          consumer.pause(owner.partitions());
        }
      }
    }
  }

  private void check() {
    long now = System.nanoTime();
    if (now - checkedAt < CHECK_NANOS) {
      return;
    }
    checkedAt = now;
    brokers.check(now, consumer.paused().size() < owners.size());
    checkTopics();
  }

  /** The consumer refreshes what it knows about its topics by itself; asking for it costs nothing. */
  private void checkTopics() {
    Subscription[] all = (Subscription[]) new HashSet(owners.values()).toArray(new Subscription[0]);
    for (int number = 0; number < all.length; number++) {
      Subscription subscription = all[number];
      int partitions = partitionCount(subscription);
      if (partitions == 0) {
        fail(subscription, new UnknownTopicOrPartitionException("the topic does not exist"));
      } else if (subscription.isWhole && partitions > subscription.partitions().size()) {
        fail(subscription, new NewPartitionsException());
      }
    }
  }

  private int partitionCount(Subscription subscription) {
    try {
      List partitions = consumer.partitionsFor(subscription.topic, METADATA);
      return partitions == null ? 0 : partitions.size();
    } catch (TimeoutException unavailable) {
      return subscription.partitions().size(); // not known at the moment
    }
  }

  private void add(Subscription subscription, Map offsets) {
    List partitions = subscription.partitions();
    for (int number = 0; number < partitions.size(); number++) {
      owners.put(partitions.get(number), subscription);
    }
    consumer.assign(owners.keySet());
    moveTo(subscription, offsets);
    brokers.restart(System.nanoTime());
  }

  private void moveTo(Subscription subscription, Map offsets) {
    for (Iterator entries = offsets.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      int partition = ((Integer) entry.getKey()).intValue();
      consumer.seek(new TopicPartition(subscription.topic, partition), ((Number) entry.getValue()).longValue());
    }
  }

  private boolean isCurrent(Subscription subscription) {
    return owners.containsValue(subscription);
  }

  // ── the end ───────────────────────────────────────────────────────────────────────────────────────────────

  private void failOwners(Collection partitions, Exception error) {
    for (Iterator all = partitions.iterator(); all.hasNext(); ) {
      Subscription owner = (Subscription) owners.get(all.next());
      if (owner != null) {
        fail(owner, error);
      }
    }
  }

  private void failTopics(Collection topics, Exception error) {
    for (Iterator partitions = new ArrayList(owners.keySet()).iterator(); partitions.hasNext(); ) {
      Object partition = partitions.next();
      if (topics.contains(((TopicPartition) partition).topic()) && owners.containsKey(partition)) {
        fail((Subscription) owners.get(partition), error);
      }
    }
  }

  private void fail(Subscription subscription, Exception error) {
    drop(subscription);
    subscription.fail(error);
  }

  private void failAll(Exception error) {
    Subscription[] failed;
    synchronized (READERS) {
      failed = (Subscription[]) subscriptions.toArray(new Subscription[0]);
      retire();
    }
    for (int number = 0; number < failed.length; number++) {
      failed[number].fail(error);
    }
  }

  private void drop(Subscription subscription) {
    owners.values().removeAll(Collections.singleton(subscription));
    consumer.assign(owners.keySet());
    synchronized (READERS) {
      subscriptions.remove(subscription);
    }
  }

  private void retire() {
    subscriptions.clear();
    List readers = (List) READERS.get(settings);
    readers.remove(this);
    if (readers.isEmpty()) {
      READERS.remove(settings);
    }
  }
}
