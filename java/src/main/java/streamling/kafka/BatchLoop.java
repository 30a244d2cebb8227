package streamling.kafka;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import streamling.plan.Evaluations;
import streamling.plan.RowSink;

/**
 * Delivers the small batches of a stream. Each step evaluates a plan over the messages of a batch; its rows go to a sink
 * in the JVM, or to Python as Arrow data. As long as no row goes to Python, one batch follows another without it: a few
 * calls from Python cost more than most batches. Not for two threads at once.
 */
public final class BatchLoop {
  /** After a wait of this length, Python gets the next batch at once: a stream with few messages shows each of them. */
  private static final long QUIET_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

  private final Subscription source;
  private final List<Step> steps = new ArrayList<>();
  private final Evaluations.Mark mark = Evaluations.newMark();
  private final Report report = new Report();
  /** Whether a batch has been taken, and not all of its steps have run. */
  private boolean isInBatch;
  /** The step that continues the current batch. */
  private int next;

  public BatchLoop(Subscription source) {
    this.source = source;
  }

  /** Adds a step whose rows go to {@code sink}; null: to Python. */
  public void add(MessagePlan plan, RowSink sink) {
    steps.add(new Step(plan, sink));
  }

  /**
   * Delivers batches of {@code least} to {@code most} messages (see {@link Subscription#take}) until there are rows for
   * Python, a sink fails, or the first of them was delivered {@code reportMilliseconds} ago. Returns null if there was
   * none. Otherwise: the number of messages, nanoseconds of waiting, and the offsets after the messages, such as {@code
   * 12 5000 0=17 3=4}; a line for each step ({@link Step#takeText}); an empty line; and the Arrow data of all steps.
   *
   * <p>If a sink has failed, the batch is not complete, and its messages are not part of the report. Python writes the
   * rows ({@link #unwritten}); the next call continues the batch. If a plan fails, {@link #failedStep} is its number.
   */
  public byte[] run(long milliseconds, int least, int most, long reportMilliseconds) throws Exception {
    if (isInBatch) {
      finishBatch();
      return report.take(steps);
    }
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    while (deliver(until, least, most) && report.lastWait < QUIET_NANOS) {
      long now = System.nanoTime();
      if (report.batches == 1) {
        until = Math.min(until, now + TimeUnit.MILLISECONDS.toNanos(reportMilliseconds));
      }
      if (now >= until) {
        break;
      }
    }
    return isInBatch || report.batches > 0 ? report.take(steps) : null;
  }

  /** Waits for a batch and delivers it. False if there was none, or if Python has something to do now. */
  private boolean deliver(long until, int least, int most) throws Exception {
    long began = System.nanoTime();
    try {
      if (!source.take(TimeUnit.NANOSECONDS.toMillis(Math.max(0, until - began)), least, most)) {
        return false;
      }
      report.waited(System.nanoTime() - began);
      isInBatch = true;
      next = 0;
      return finishBatch();
    } catch (Exception error) {
      if (report.batches == 0) {
        throw error;
      }
      return false; // what has been delivered is reported first; the next call raises the error again
    }
  }

  /** Runs the remaining steps of the batch. False if Python has something to do now. */
  private boolean finishBatch() throws Exception {
    boolean isDone = true;
    while (next < steps.size()) {
      Step step = steps.get(next);
      mark.set(true);
      try {
        step.run(source);
      } finally {
        mark.set(false); // not if the JVM has died
      }
      next++;
      if (step.unwritten != null) {
        return false;
      }
      isDone &= step.arrow == null;
    }
    isInBatch = false;
    report.add(source);
    return isDone;
  }

  /** Returns the number of the step whose plan has failed; -1 if none has. */
  public int failedStep() {
    return isInBatch ? next : -1;
  }

  /** Returns the rows that the sink of a step has not written. */
  public List<InternalRow> unwritten(int number) {
    var rows = steps.get(number).unwritten;
    steps.get(number).unwritten = null;
    return rows;
  }

  /** Returns the offsets after the messages of the current batch, such as {@code 0=17 3=4}. */
  public String takenOffsets() {
    return text(source.takenOffsets());
  }

  private static String text(Map<Integer, Long> offsets) {
    return offsets.entrySet().stream().map(Object::toString).collect(Collectors.joining(" "));
  }

  /** Returns where {@link Evaluations} marks this loop. */
  public String markPlace() {
    return mark.place();
  }

  public void close() {
    mark.release();
  }

  /** A plan and where its rows go; and what has happened since the last report. */
  private static final class Step {
    private final MessagePlan plan;
    private final RowSink sink;
    private long rows;
    private long sent;
    private long planNanos;
    private long writeNanos;
    private byte[] arrow;
    private List<InternalRow> unwritten;

    Step(MessagePlan plan, RowSink sink) {
      this.plan = plan;
      this.sink = sink;
    }

    void run(Subscription source) throws Exception {
      long began = System.nanoTime();
      if (sink == null) {
        arrow = plan.arrow(source);
        planNanos += System.nanoTime() - began;
        return;
      }
      List<InternalRow> made = plan.rows(source);
      long computed = System.nanoTime();
      planNanos += computed - began;
      if (made.isEmpty()) {
        return;
      }
      try {
        sent += sink.write(made);
        rows += made.size();
      } catch (Exception error) {
        unwritten = made; // Python tries again, and reports the error if that fails, too
      }
      writeNanos += System.nanoTime() - computed;
    }

    /**
     * Rows and messages written, nanoseconds of the plan and the sink, rows not written, bytes of Arrow data, and the
     * observations of the plan: {@code 12 12 5000 9000 0 0 rows_0=12}. The data is added to {@code all}.
     */
    String takeText(ByteArrayOutputStream all) {
      int bytes = arrow == null ? 0 : arrow.length;
      if (bytes > 0) {
        all.writeBytes(arrow);
      }
      int failed = unwritten == null ? 0 : unwritten.size();
      var text = rows + " " + sent + " " + planNanos + " " + writeNanos + " " + failed + " " + bytes + " " + plan.observed();
      rows = sent = planNanos = writeNanos = 0;
      arrow = null;
      return text;
    }
  }

  /** What has happened since the last report. */
  private static final class Report {
    private int batches;
    private int messages;
    private long waitNanos;
    private long lastWait;
    private final Map<Integer, Long> offsets = new TreeMap<>();

    void waited(long nanos) {
      lastWait = nanos;
      waitNanos += nanos;
    }

    void add(Subscription source) {
      batches++;
      messages += source.takenCount();
      offsets.putAll(source.takenOffsets());
    }

    byte[] take(List<Step> steps) {
      var text = new StringBuilder().append(messages).append(' ').append(waitNanos).append(' ').append(text(offsets));
      var data = new ByteArrayOutputStream();
      for (Step step : steps) {
        text.append('\n').append(step.takeText(data));
      }
      batches = messages = 0;
      waitNanos = 0;
      offsets.clear();
      var all = new ByteArrayOutputStream();
      all.writeBytes(text.append("\n\n").toString().getBytes(StandardCharsets.UTF_8));
      all.writeBytes(data.toByteArray());
      return all.toByteArray();
    }
  }
}
