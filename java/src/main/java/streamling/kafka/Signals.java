package streamling.kafka;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** What the loops have for Python: one thread of Python waits for all of them. */
public final class Signals {
  /** Whether a loop goes on, has stopped, or has stopped because of its source. */
  enum Kind {
    REPORT,
    STOPPED,
    FAILED
  }

  private record Signal(long number, Kind kind, byte[] report) {
    @Override
    public String toString() {
      return number + " " + kind + " " + report.length;
    }
  }

  private static final BlockingQueue<Signal> READY = new LinkedBlockingQueue<>();

  private Signals() {}

  static void add(long number, Kind kind, byte[] report) {
    READY.add(new Signal(number, kind, report));
  }

  /**
   * Waits for signals: numbers of loops, what they do, and the bytes of their reports, such as {@code 3 REPORT 17,5 STOPPED
   * 0}, the end of the line, and the reports. Nothing if there are none in this time.
   */
  public static byte[] take(long milliseconds) throws InterruptedException {
    Signal first = READY.poll(milliseconds, TimeUnit.MILLISECONDS);
    var all = new ByteArrayOutputStream();
    if (first != null) {
      List<Signal> signals = new ArrayList<>(List.of(first));
      READY.drainTo(signals);
      var line = signals.stream().map(Signal::toString).collect(Collectors.joining(","));
      all.writeBytes((line + "\n").getBytes(StandardCharsets.US_ASCII));
      signals.forEach(signal -> all.writeBytes(signal.report));
    }
    return all.toByteArray();
  }
}
