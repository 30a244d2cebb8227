package streamling;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the brokers about topics, and returns the answers as text: one call from Python, however many topics or
 * partitions there are. Of many topics, those that the brokers do not know are left out.
 */
public final class TopicInfos {
  private TopicInfos() {}

  /** Lines of topic and partition → lines of topic, partition and the offset of the next message. */
  public static String ends(Admin admin, String lines, boolean committed) throws InterruptedException {
    String[] names = lines.split("\n");
    Map requested = new HashMap();
    for (int i = 0; i < names.length; i++) {
      requested.put(partition(names[i]), OffsetSpec.latest());
    }
    ListOffsetsResult result = admin.listOffsets(requested, options(committed));
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < names.length; i++) {
      try {
        Object found = result.partitionResult(partition(names[i])).get();
        text.append(names[i]).append(' ').append(offset(found)).append('\n');
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
    OffsetSpec spec = time == -2 ? OffsetSpec.earliest() : OffsetSpec.latest();
    if (time >= 0) {
      spec = OffsetSpec.forTimestamp(time);
    }
    Map requested = new HashMap();
    String[] numbers = partitions.split(" ");
    for (int i = 0; i < numbers.length; i++) {
      requested.put(new TopicPartition(topic, Integer.parseInt(numbers[i])), spec);
    }
    Map found = (Map) admin.listOffsets(requested, options(committed)).all().get(seconds, TimeUnit.SECONDS);
    StringBuilder text = new StringBuilder();
    for (Iterator entries = found.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      text.append(((TopicPartition) entry.getKey()).partition()).append('=').append(offset(entry.getValue()));
      text.append(' ');
    }
    return text.toString();
  }

  /** Lines of topics → lines of topic and id. */
  public static String ids(Admin admin, String lines) throws InterruptedException {
    List topics = new ArrayList();
    String[] names = lines.split("\n");
    for (int i = 0; i < names.length; i++) {
      topics.add(names[i]);
    }
    StringBuilder text = new StringBuilder();
    Map described = admin.describeTopics(topics).topicNameValues();
    for (Iterator entries = described.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      try {
        TopicDescription topic = (TopicDescription) ((KafkaFuture) entry.getValue()).get();
        text.append(topic.name()).append(' ').append(topic.topicId()).append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
    }
    return text.toString();
  }

  private static ListOffsetsOptions options(boolean committed) {
    return new ListOffsetsOptions(committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
  }

  private static long offset(Object found) {
    return ((ListOffsetsResult.ListOffsetsResultInfo) found).offset();
  }

  private static TopicPartition partition(String line) {
    int space = line.indexOf(' ');
    return new TopicPartition(line.substring(0, space), Integer.parseInt(line.substring(space + 1)));
  }
}
