package streamling.serve;

import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;

/**
 * The jobs of one pipeline, first in, first out, and the core time that they have recently used. Older use counts less:
 * half as much every few seconds. So a pipeline that was idle comes first, but has to share again soon.
 */
public final class PipelinePool extends Pool {
  private static final double HALF_LIFE_NANOS = 5e9;

  private double used;
  private long updatedAt = System.nanoTime();

  PipelinePool(String name, int weight) {
    super(name, SchedulingMode.FIFO(), 0, weight);
  }

  /** Recent core time in nanoseconds, divided by the weight. */
  synchronized double usage(long now) {
    update(now);
    return used / weight();
  }

  @Override
  public synchronized void increaseRunningTasks(int tasks) {
    update(System.nanoTime());
    super.increaseRunningTasks(tasks);
  }

  @Override
  public synchronized void decreaseRunningTasks(int tasks) {
    update(System.nanoTime());
    super.decreaseRunningTasks(tasks);
  }

  /** Adds what the running tasks have used since the last update, of which a part has already faded, too. */
  private void update(long now) {
    double kept = Math.pow(0.5, Math.max(0, now - updatedAt) / HALF_LIFE_NANOS);
    used = used * kept + runningTasks() * (1 - kept) * HALF_LIFE_NANOS / Math.log(2);
    updatedAt = Math.max(updatedAt, now);
  }
}
