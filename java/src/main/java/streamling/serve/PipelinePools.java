package streamling.serve;

import java.util.Arrays;
import java.util.Comparator;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.Schedulable;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.TaskSetManager;
import scala.collection.mutable.ArrayBuffer;

/**
 * The pools of all pipelines. A free core goes to the pipeline that has recently used the least core time for its
 * weight. Spark's own fair scheduler counts running tasks: with fewer cores than busy pipelines, most of them have none,
 * so their weights would have no effect and the order of their names would decide. Spark finds a pool by its name,
 * wherever it is.
 */
public final class PipelinePools extends Pool {
  /** Not a valid name of a pipeline. */
  private static final String NAME = "pipelines";

  private PipelinePools() {
    super(NAME, SchedulingMode.FIFO(), 0, 1);
  }

  /** Adds a pool with this weight, in place of one with the same name. */
  public static synchronized void add(SparkContext context, String name, int weight) {
    remove(context, name);
    Pool root = context.taskScheduler().rootPool();
    Schedulable pools = root.getSchedulableByName(NAME);
    if (pools == null) {
      pools = new PipelinePools();
      root.addSchedulable(pools);
    }
    pools.addSchedulable(new PipelinePool(name, weight));
  }

  /** Removes a pool if it exists. */
  public static synchronized void remove(SparkContext context, String name) {
    Schedulable pool = context.taskScheduler().rootPool().getSchedulableByName(name);
    if (pool != null) {
      pool.parent().removeSchedulable(pool);
    }
  }

  /** The usage is read once: it changes while it is compared. */
  private record Usage(PipelinePool pool, String name, double usage) {}

  @Override
  public ArrayBuffer<TaskSetManager> getSortedTaskSetQueue() {
    long now = System.nanoTime();
    var tasks = new ArrayBuffer<TaskSetManager>();
    Arrays.stream(schedulableQueue().toArray())
        .map(PipelinePool.class::cast)
        .map(pool -> new Usage(pool, pool.name(), pool.usage(now)))
        .sorted(Comparator.comparingDouble(Usage::usage).thenComparing(Usage::name))
        .forEach(usage -> tasks.addAll(usage.pool.getSortedTaskSetQueue()));
    return tasks;
  }
}
