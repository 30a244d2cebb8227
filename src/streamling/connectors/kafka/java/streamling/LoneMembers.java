package streamling;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * Members of groups for which nothing happens for a long time: one call polls all of them. A member that has to react,
 * because its group has changed, its poll has failed or it has offsets to commit, is left to its owner.
 */
public final class LoneMembers {
  /** Name → consumer. */
  private final Map consumers = new HashMap();

  public synchronized void add(String name, KafkaConsumer consumer) {
    consumers.put(name, consumer);
  }

  /** After this the consumer is not used here any more. */
  public synchronized void remove(String name) {
    consumers.remove(name);
  }

  /** Polls every member once, without waiting. Returns the names of those whose poll has failed, one per line. */
  public synchronized String poll() {
    StringBuilder failed = new StringBuilder();
    for (Iterator entries = new HashSet(consumers.entrySet()).iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      try {
        ((KafkaConsumer) entry.getValue()).poll(Duration.ZERO);
      } catch (Exception error) {
        failed.append(entry.getKey()).append('\n');
      }
    }
    return failed.toString();
  }
}
