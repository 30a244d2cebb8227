package streamling.plan;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.util.AccumulatorV2;

/**
 * Counts that tasks report for their partition. A plan may run several times, as a whole or in parts: of all tasks that
 * computed a partition, the one with the most rows counts.
 */
final class PartitionCounts extends AccumulatorV2<PartitionCounts.Count, Map<Integer, long[]>> {
  private static final long serialVersionUID = 1L;

  /** The number of all rows of a partition, and of those of each group. */
  record Count(int partition, long[] rows) implements Serializable {}

  private final HashMap<Integer, long[]> partitions = new HashMap<>();

  @Override
  public synchronized boolean isZero() {
    return partitions.isEmpty();
  }

  @Override
  public synchronized PartitionCounts copy() {
    var copy = new PartitionCounts();
    copy.partitions.putAll(partitions);
    return copy;
  }

  @Override
  public synchronized void reset() {
    partitions.clear();
  }

  @Override
  public synchronized void add(Count count) {
    partitions.merge(count.partition, count.rows, (known, rows) -> known[0] < rows[0] ? rows : known);
  }

  @Override
  public void merge(AccumulatorV2<Count, Map<Integer, long[]>> other) {
    other.value().forEach((partition, rows) -> add(new Count(partition, rows)));
  }

  @Override
  public synchronized Map<Integer, long[]> value() {
    return new HashMap<>(partitions);
  }
}
