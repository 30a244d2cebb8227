package streamling.kafka;

import java.util.List;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/** Asks the brokers for the members of many consumer groups at once, and returns them as text: one call from Python. */
public final class GroupMembers {
  private GroupMembers() {}

  /**
   * Lines of groups → for each group a line with its name, and the client id and the host of each member, separated by
   * tabs. Groups that cannot be described are left out.
   */
  public static String of(Admin admin, String lines) throws InterruptedException {
    var text = new StringBuilder();
    var described = admin.describeConsumerGroups(List.of(lines.split("\n"))).describedGroups();
    for (var group : described.entrySet()) {
      try {
        var members = group.getValue().get().members();
        text.append(group.getKey());
        members.forEach(member -> text.append('\t').append(member.clientId()).append('\t').append(member.host()));
        text.append('\n');
      } catch (ExecutionException missing) {
        continue;
      }
    }
    return text.toString();
  }
}
