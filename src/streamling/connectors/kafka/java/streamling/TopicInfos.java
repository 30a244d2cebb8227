package streamling;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the brokers about many topics at once, and returns the answers as text: one call from Python, however many
 * topics there are. What the brokers do not know is left out.
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
    IsolationLevel level = committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    ListOffsetsResult result = admin.listOffsets(requested, new ListOffsetsOptions(level));
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < names.length; i++) {
      try {
        Object found = result.partitionResult(partition(names[i])).get();
        text.append(names[i]).append(' ').append(((ListOffsetsResult.ListOffsetsResultInfo) found).offset()).append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
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

  private static TopicPartition partition(String line) {
    int space = line.indexOf(' ');
    return new TopicPartition(line.substring(0, space), Integer.parseInt(line.substring(space + 1)));
  }
}
