package streamling.kafka;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Offsets as the Kafka clients commit them, made with one call from Python. */
public final class GroupOffsets {
  /** Group and topic → why the last commit of {@link #commitLater} has failed. */
  private static final Map<String, Throwable> FAILURES = new ConcurrentHashMap<>();

  private GroupOffsets() {}

  /** {@code text} contains partitions and the offsets of their next messages: {@code 0=17 3=4}. */
  public static Map<TopicPartition, OffsetAndMetadata> of(String topic, String text, String metadata) {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    for (String pair : text.split(" ")) {
      int equals = pair.indexOf('=');
      var partition = new TopicPartition(topic, Integer.parseInt(pair.substring(0, equals)));
      offsets.put(partition, new OffsetAndMetadata(Long.parseLong(pair.substring(equals + 1)), metadata));
    }
    return offsets;
  }

  /** Commits the offsets in {@code text} for a group and does not wait. Throws why the commit before has failed. */
  public static void commitLater(Admin admin, String group, String topic, String text, String metadata) throws Throwable {
    String key = group + "/" + topic;
    Throwable failure = FAILURES.remove(key);
    admin
        .alterConsumerGroupOffsets(group, of(topic, text, metadata))
        .all()
        .whenComplete(
            (nothing, error) -> {
              if (error != null) {
                FAILURES.put(key, error);
              }
            });
    if (failure != null) {
      throw failure;
    }
  }
}
