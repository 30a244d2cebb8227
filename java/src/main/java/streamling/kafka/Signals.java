package streamling.kafka;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Which loops have something for Python: one thread of Python waits for all of them. */
public final class Signals {
  private static final BlockingQueue<Long> READY = new LinkedBlockingQueue<>();

  private Signals() {}

  static void add(long number) {
    READY.add(number);
  }

  /** Waits for the numbers of loops, such as {@code 3 17}; an empty text if there are none in this time. */
  public static String take(long milliseconds) throws InterruptedException {
    Long first = READY.poll(milliseconds, TimeUnit.MILLISECONDS);
    if (first == null) {
      return "";
    }
    List<Long> numbers = new ArrayList<>(List.of(first));
    READY.drainTo(numbers);
    return numbers.stream().map(Object::toString).collect(Collectors.joining(" "));
  }
}
