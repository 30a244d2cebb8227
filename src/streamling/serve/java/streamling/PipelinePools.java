package streamling;

import java.util.Arrays;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;
import scala.collection.mutable.ArrayBuffer;

/**
 * The pools of all pipelines. A free core goes to the pipeline that has recently used the least core time for its
 * weight. Spark's own fair scheduler counts running tasks: with fewer cores than busy pipelines, most of them have none,
 * so their weights would have no effect and the order of their names would decide.
 */
public final class PipelinePools extends Pool {
  public PipelinePools(String name) {
    super(name, SchedulingMode.FIFO(), 0, 1);
  }

  public ArrayBuffer getSortedTaskSetQueue() {
    long now = System.nanoTime();
    Object[] found = schedulableQueue().toArray();
    // the usage is read once: it changes while it is compared
    PoolUsage[] pools = new PoolUsage[found.length];
    for (int i = 0; i < found.length; i++) {
      pools[i] = new PoolUsage((PipelinePool) found[i], now);
    }
    Arrays.sort(pools);
    ArrayBuffer tasks = new ArrayBuffer();
    for (int i = 0; i < pools.length; i++) {
      tasks.addAll(pools[i].pool.getSortedTaskSetQueue());
    }
    return tasks;
  }
}
