package streamling.kafka;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/**
 * Threads that deliver the batches of all streams, in the order in which these have messages. If messages arrive for
 * hundreds of streams at once, a thread for each of them would compete for the same cores, and switching between them
 * would cost more than their work. Streams that wait meanwhile get more messages into their next batch.
 *
 * <p>A thread that takes long, because a sink is slow, is not counted any more: it does not hold up other streams.
 */
final class Workers {
  private static final long LATE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long IDLE_MILLIS = 5_000;

  private final int most;
  private final Queue<Runnable> ready = new ArrayDeque<>();
  /** The threads that work → since when. */
  private final Map<Thread, Long> working = new HashMap<>();
  private int idle;

  /** At most {@code most} threads work, besides those that are late. */
  Workers(int most) {
    this.most = most;
  }

  synchronized void submit(Runnable task) {
    ready.add(task);
    if (idle > 0) {
      notify();
    } else {
      check();
    }
  }

  /** Starts another thread if tasks wait only for those that are late. Called now and then. */
  synchronized void check() {
    if (ready.isEmpty() || idle > 0) {
      return;
    }
    long now = System.nanoTime();
    if (working.values().stream().filter(since -> now - since < LATE_NANOS).count() < most) {
      var thread = new Thread(this::work, "batches");
      thread.setDaemon(true);
      working.put(thread, now);
      thread.start();
    }
  }

  private void work() {
    Runnable task;
    while ((task = next()) != null) {
      task.run();
    }
  }

  /** Waits for a task; null if this thread is not needed. */
  private synchronized Runnable next() {
    working.remove(Thread.currentThread());
    if (ready.isEmpty()) {
      idle++;
      try {
        wait(IDLE_MILLIS);
      } catch (InterruptedException end) {
        Thread.currentThread().interrupt();
      } finally {
        idle--;
      }
    }
    Runnable task = ready.poll();
    if (task != null) {
      working.put(Thread.currentThread(), System.nanoTime());
    }
    return task;
  }
}
