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

  /** Per partition one number for each group of rows. */
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
    if (known == null || sum(known) < sum(counts)) {
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
  synchronized long[] total(int groups) {
    long[] total = new long[groups];
    for (Iterator all = partitions.values().iterator(); all.hasNext(); ) {
      long[] counts = (long[]) all.next();
      for (int group = 0; group < groups; group++) {
        total[group] += counts[group];
      }
    }
    return total;
  }

  private static long sum(long[] counts) {
    long sum = 0;
    for (int group = 0; group < counts.length; group++) {
      sum += counts[group];
    }
    return sum;
  }
}
