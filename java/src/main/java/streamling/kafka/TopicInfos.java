package streamling.kafka;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the brokers about topics, and returns the answers as text: one call from Python, however many topics or
 * partitions there are. Of many topics, those that the brokers do not know are left out.
 */
public final class TopicInfos {
  private TopicInfos() {}

  /** Lines of topic and partition → lines of topic, partition and the offset of the next message. */
  public static String ends(Admin admin, String lines, boolean committed) throws InterruptedException {
    List<TopicPartition> partitions = Arrays.stream(lines.split("\n")).map(TopicInfos::partition).toList();
    var result = list(admin, partitions.stream(), OffsetSpec.latest(), committed);
    var text = new StringBuilder();
    for (TopicPartition partition : partitions) {
      try {
        long offset = result.partitionResult(partition).get().offset();
        text.append(partition.topic()).append(' ').append(partition.partition()).append(' ').append(offset);
        text.append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
    }
    return text.toString();
  }

  /**
   * The first offset of each of these partitions ({@code 0 3}) at {@code time} or later, -2 for the first message and -1
   * for the end: {@code 0=17 3=4}. Fails after {@code seconds}.
   */
  public static String offsets(
      Admin admin, String topic, String partitions, long time, boolean committed, long seconds)
      throws InterruptedException, ExecutionException, TimeoutException {
    OffsetSpec end = time == -2 ? OffsetSpec.earliest() : OffsetSpec.latest();
    OffsetSpec spec = time >= 0 ? OffsetSpec.forTimestamp(time) : end;
    var numbers = Arrays.stream(partitions.split(" ")).map(Integer::parseInt);
    var requested = numbers.map(number -> new TopicPartition(topic, number));
    return list(admin, requested, spec, committed).all().get(seconds, TimeUnit.SECONDS).entrySet().stream()
        .map(found -> found.getKey().partition() + "=" + found.getValue().offset())
        .collect(Collectors.joining(" "));
  }

  /** Lines of topics → lines of topic and id. */
  public static String ids(Admin admin, String lines) throws InterruptedException {
    var text = new StringBuilder();
    for (var described : admin.describeTopics(List.of(lines.split("\n"))).topicNameValues().values()) {
      try {
        var topic = described.get();
        text.append(topic.name()).append(' ').append(topic.topicId()).append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
    }
    return text.toString();
  }

  private static ListOffsetsResult list(
      Admin admin, Stream<TopicPartition> partitions, OffsetSpec spec, boolean committed) {
    Map<TopicPartition, OffsetSpec> requested = new HashMap<>();
    partitions.forEach(partition -> requested.put(partition, spec));
    var level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    return admin.listOffsets(requested, new ListOffsetsOptions(level));
  }

  private static TopicPartition partition(String line) {
    int space = line.indexOf(' ');
    return new TopicPartition(line.substring(0, space), Integer.parseInt(line.substring(space + 1)));
  }
}
