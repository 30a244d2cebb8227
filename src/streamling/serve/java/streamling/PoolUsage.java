package streamling;

/** What a pool has recently used, as of one moment. */
final class PoolUsage implements Comparable {
  final PipelinePool pool;
  private final double usage;

  PoolUsage(PipelinePool pool, long now) {
    this.pool = pool;
    this.usage = pool.usage(now);
  }

  public int compareTo(Object other) {
    int order = Double.compare(usage, ((PoolUsage) other).usage);
    return order != 0 ? order : pool.name().compareTo(((PoolUsage) other).pool.name());
  }
}
