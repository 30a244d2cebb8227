package streamling;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Offsets as the Kafka clients commit them, made with one call from Python. */
public final class GroupOffsets {
  private GroupOffsets() {}

  /** {@code text} contains partitions and the offsets of their next messages: {@code 0=17 3=4}. */
  public static Map of(String topic, String text, String metadata) {
    Map offsets = new HashMap();
    String[] pairs = text.split(" ");
    for (int number = 0; number < pairs.length; number++) {
      int equals = pairs[number].indexOf('=');
      int partition = Integer.parseInt(pairs[number].substring(0, equals));
      long offset = Long.parseLong(pairs[number].substring(equals + 1));
      offsets.put(new TopicPartition(topic, partition), new OffsetAndMetadata(offset, metadata));
    }
    return offsets;
  }
}
