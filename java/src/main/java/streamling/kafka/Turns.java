package streamling.kafka;

import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Lets a few streams deliver at a time, in the order in which they have messages. If messages arrive for hundreds of
 * streams at once, all of their threads would compete for the same cores and for Python's lock, and switching between
 * them would cost more than their work. Those that wait meanwhile get more messages into their next batch.
 *
 * <p>A stream whose sink is slow keeps its turn only for a moment, so it does not hold up the others.
 */
final class Turns {
  private static final long LEASE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private final int most;
  private final ReentrantLock lock = new ReentrantLock();
  /** The streams that deliver → since when. */
  private final Map<Subscription, Long> holders = new LinkedHashMap<>();
  private final Queue<Waiter> waiting = new ArrayDeque<>();

  Turns(int most) {
    this.most = most;
  }

  private static final class Waiter {
    final Subscription stream;
    final Condition changed;
    boolean hasTurn;

    Waiter(Subscription stream, Condition changed) {
      this.stream = stream;
      this.changed = changed;
    }
  }

  /** Waits until {@code stream} may deliver. */
  void take(Subscription stream) throws InterruptedException {
    lock.lock();
    try {
      var waiter = new Waiter(stream, lock.newCondition());
      waiting.add(waiter);
      grant();
      while (!waiter.hasTurn) {
        waiter.changed.awaitNanos(LEASE_NANOS);
        grant();
      }
    } finally {
      lock.unlock();
    }
  }

  /** {@code stream} has delivered. */
  void give(Subscription stream) {
    lock.lock();
    try {
      if (holders.remove(stream) != null) {
        grant();
      }
    } finally {
      lock.unlock();
    }
  }

  private void grant() {
    long now = System.nanoTime();
    holders.values().removeIf(since -> now - since > LEASE_NANOS);
    while (holders.size() < most && !waiting.isEmpty()) {
      Waiter next = waiting.remove();
      next.hasTurn = true;
      holders.put(next.stream, now);
      next.changed.signal();
    }
  }
}
