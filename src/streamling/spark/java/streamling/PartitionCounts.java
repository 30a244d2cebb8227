package streamling;

import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/**
 * Counts that tasks report for their partition. A plan may run several times, as a whole or in parts: of all tasks that
 * computed a partition, the one with the most rows counts.
 */
final class PartitionCounts extends AccumulatorV2 {
  private static final long serialVersionUID = 1L;

  /** Per partition the number of all rows, and of those of each group. */
  private final Map partitions = new HashMap();

  public synchronized boolean isZero() {
    return partitions.isEmpty();
  }

  public synchronized AccumulatorV2 copy() {
    PartitionCounts copy = new PartitionCounts();
    copy.partitions.putAll(partitions);
    return copy;
  }

  public synchronized void reset() {
    partitions.clear();
  }

  /** Takes the entry of a map like {@link #partitions}. */
  public synchronized void add(Object entry) {
    Object partition = ((Map.Entry) entry).getKey();
    long[] counts = (long[]) ((Map.Entry) entry).getValue();
    long[] known = (long[]) partitions.get(partition);
    if (known == null || known[0] < counts[0]) {
      partitions.put(partition, counts);
    }
  }

  public void merge(AccumulatorV2 other) {
    for (Iterator all = ((Map) other.value()).entrySet().iterator(); all.hasNext(); ) {
      add(all.next());
    }
  }

  public synchronized Object value() {
    return new HashMap(partitions);
  }

  /** The numbers of all partitions. */
  synchronized long[] total(int numbers) {
    long[] total = new long[numbers];
    for (Iterator all = partitions.values().iterator(); all.hasNext(); ) {
      long[] counts = (long[]) all.next();
      for (int number = 0; number < numbers; number++) {
        total[number] += counts[number];
      }
    }
    return total;
  }
}
