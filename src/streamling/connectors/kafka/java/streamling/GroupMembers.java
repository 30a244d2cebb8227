package streamling;

import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.common.KafkaFuture;

/** Asks the brokers for the members of many consumer groups at once, and returns them as text: one call from Python. */
public final class GroupMembers {
  private GroupMembers() {}

  /**
   * Lines of groups → for each group a line with its name, and the client id and the host of each member, separated by
   * tabs. Groups that cannot be described are left out.
   */
  public static String of(Admin admin, String lines) throws InterruptedException {
    StringBuilder text = new StringBuilder();
    Map described = admin.describeConsumerGroups(Arrays.asList(lines.split("\n"))).describedGroups();
    for (Iterator entries = described.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      try {
        ConsumerGroupDescription group = (ConsumerGroupDescription) ((KafkaFuture) entry.getValue()).get();
        text.append(entry.getKey());
        for (Iterator members = group.members().iterator(); members.hasNext(); ) {
          MemberDescription member = (MemberDescription) members.next();
          text.append('\t').append(member.clientId()).append('\t').append(member.host());
        }
        text.append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
    }
    return text.toString();
  }
}
