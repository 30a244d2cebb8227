package streamling.kafka;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Offsets as the Kafka clients commit them, made with one call from Python. */
public final class GroupOffsets {
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
}
