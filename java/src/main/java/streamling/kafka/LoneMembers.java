package streamling.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * Members of groups for which nothing happens for a long time: one call polls all of them. A member that has to react,
 * because its group has changed, its poll has failed or it has offsets to commit, is left to its owner.
 */
public final class LoneMembers {
  private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

  public synchronized void add(String name, KafkaConsumer<byte[], byte[]> consumer) {
    consumers.put(name, consumer);
  }

  /** After this the consumer is not used here any more. */
  public synchronized void remove(String name) {
    consumers.remove(name);
  }

  /** Polls every member once, without waiting. Returns the names of those whose poll has failed, one per line. */
  public synchronized String poll() {
    var failed = new StringBuilder();
    // a copy: a member may be removed while it is polled
    Map.copyOf(consumers)
        .forEach(
            (name, consumer) -> {
              try {
                consumer.poll(Duration.ZERO);
              } catch (RuntimeException error) {
                failed.append(name).append('\n');
              }
            });
    return failed.toString();
  }
}
