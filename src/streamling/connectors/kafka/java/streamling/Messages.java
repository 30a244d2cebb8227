package streamling;

import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** Messages of a topic in the order in which they are delivered, and the offsets after them. */
public final class Messages {
  final List records;
  private final Map next;

  /** {@code next}: partition → offset of the next message, for the partitions that have advanced. */
  Messages(List records, Map next) {
    this.records = records;
    this.next = next;
  }

  /**
   * The number of messages, and the offsets after them: {@code 12 0=17 3=4}. One text, because each call from Python
   * takes time.
   */
  public String summary() {
    StringBuilder text = new StringBuilder().append(records.size());
    for (Iterator entries = next.entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      text.append(' ').append(entry.getKey()).append('=').append(entry.getValue());
    }
    return text.toString();
  }
}
