package streamling.kafka;

import java.io.ByteArrayOutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.InternalRow;
import streamling.plan.Evaluations;
import streamling.plan.RowSink;

/**
 * Delivers the small batches of a stream. Each step evaluates a plan over the messages of a batch; its rows go to a sink
 * in the JVM, or to Python as Arrow data. As long as no row goes to Python, one batch follows another without it: a few
 * calls from Python cost more than most batches.
 *
 * <p>Batches are delivered by {@link Workers}, from a call of {@link #resume} until {@link Signals} says that they have
 * stopped. A batch ends when its rows are durable; its worker does not wait for that.
 */
public final class BatchLoop {
  static final Workers WORKERS = new Workers(2 * Runtime.getRuntime().availableProcessors());

  /** After a pause of this length, Python gets the next rows at once: a stream with few rows shows each of them. */
  private static final long QUIET_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
  /** Reports without rows wait longer, and all of them do if there are many loops: each report costs Python time. */
  private static final int WITHOUT_ROWS = 4;
  private static final int MANY_LOOPS = 100;
  private static final AtomicInteger OPEN = new AtomicInteger();
  private static final AtomicLong NUMBERS = new AtomicLong();
  private static final byte[] NOTHING = {};
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            var thread = new Thread(work, "reports");
            thread.setDaemon(true);
            return thread;
          });

  private final long number = NUMBERS.incrementAndGet();
  private final Subscription source;
  private final List<Step> steps = new ArrayList<>();
  private final Evaluations.Mark mark = Evaluations.newMark();

  // guarded by this, like everything below
  /** Whether batches may be delivered. */
  private boolean isOpen;
  private boolean isQueued;
  /** Whether a batch is being delivered. */
  private boolean isBusy;
  private boolean isWoken;
  /** Whether {@link #onTime} is going to be called. */
  private boolean isWatched;
  private int least;
  private int most;
  private long intervalNanos;
  private Report report = new Report();
  private long lastBatch = System.nanoTime();
  private Throwable failure;

  public BatchLoop(Subscription source) {
    this.source = source;
    source.onChange(this::advance);
  }

  /** Adds a step whose rows go to {@code sink}; null: to Python. */
  public synchronized void add(MessagePlan plan, RowSink sink) {
    steps.add(new Step(plan, sink));
  }

  // ── for Python ────────────────────────────────────────────────────────────────────────────────────────────

  /** Returns the number by which {@link Signals} names this loop. */
  public long number() {
    return number;
  }

  /**
   * Lets batches of {@code mostMessages} at most be delivered, as soon as there are {@code leastMessages} or the buffer is
   * full. {@link Signals} reports them, {@code reportMilliseconds} after the first one, until Python has something to do:
   * there are rows for it, a sink or a plan has failed, {@link #wake} was called, or the buffer is full and holds fewer
   * than {@code mostMessages}. Then nothing is delivered until the next call with {@code isNew}; others change what the
   * current one has said. With {@code reportMilliseconds} 0, that is after each batch.
   */
  public synchronized void resume(int leastMessages, int mostMessages, long reportMilliseconds, boolean isNew) {
    least = leastMessages;
    most = mostMessages;
    intervalNanos = TimeUnit.MILLISECONDS.toNanos(reportMilliseconds);
    if (!isOpen && isNew) {
      open(true);
      report.isFirst = true;
    }
    advance();
  }

  /** Stops as soon as no batch is being delivered. */
  public synchronized void wake() {
    isWoken = true;
    advance();
  }

  /** Raises the error of the source. */
  public void raiseSourceFailure() throws Exception {
    throw source.failure();
  }

  /** Raises the error of the plan that has failed. */
  public synchronized void raiseFailure() throws Throwable {
    throw failure;
  }

  /** Returns the offsets after the messages of the last batch, such as {@code 0=17 3=4}. */
  public String takenOffsets() {
    return text(source.takenOffsets());
  }

  /** Returns the rows that the sink of a step has not written. */
  public synchronized List<InternalRow> unwritten(int number) {
    var rows = steps.get(number).unwritten;
    steps.get(number).unwritten = List.of();
    return rows;
  }

  /** Returns where {@link Evaluations} marks this loop. */
  public String markPlace() {
    return mark.place();
  }

  public void close() {
    synchronized (this) {
      open(false);
    }
    source.close();
    mark.release();
  }

  /**
   * Returns the number of messages, nanoseconds of work and of CPU time, the number of the step whose plan has failed or
   * -1, and the offsets after the messages, such as {@code 12 5000 900 -1 0=17 3=4}; a line for each step ({@link
   * Step#takeText}); an empty line; and the Arrow data of all steps. The batch in which a plan has failed is not part of
   * the first line. Nothing if there was no batch.
   */
  private byte[] takeReport() {
    if (report.isEmpty()) {
      return NOTHING;
    }
    int failed = failure == null ? -1 : steps.indexOf(report.failed);
    var text = new StringBuilder();
    for (long number : new long[] {report.messages, report.workNanos, report.cpuNanos, failed}) {
      text.append(number).append(' ');
    }
    text.append(text(report.offsets));
    var data = new ByteArrayOutputStream();
    for (Step step : steps) {
      text.append('\n').append(step.takeText(data));
    }
    report = new Report();
    var all = new ByteArrayOutputStream();
    all.writeBytes(text.append("\n\n").toString().getBytes(StandardCharsets.UTF_8));
    all.writeBytes(data.toByteArray());
    return all.toByteArray();
  }

  private static String text(Map<Integer, Long> offsets) {
    return offsets.entrySet().stream().map(Object::toString).collect(Collectors.joining(" "));
  }

  // ── one batch after another ───────────────────────────────────────────────────────────────────────────────

  private void open(boolean toOpen) {
    if (isOpen != toOpen) {
      isOpen = toOpen;
      OPEN.addAndGet(toOpen ? 1 : -1);
    }
  }

  /** Delivers the next batch if there is one, and lets Python have the report if it is due. */
  private synchronized void advance() {
    if (!isOpen || isBusy) {
      return;
    }
    if (needsPython()) {
      boolean hasFailed = report.isEmpty() && source.failure() != null;
      open(false);
      isWoken = false;
      Signals.add(number, hasFailed ? Signals.Kind.FAILED : Signals.Kind.STOPPED, takeReport());
      return;
    }
    if (report.isDue(intervalNanos)) {
      Signals.add(number, Signals.Kind.REPORT, takeReport());
    }
    if (!isQueued && source.isReady(least)) {
      isQueued = true;
      WORKERS.submit(this::deliver);
    }
  }

  /** Whether nothing is delivered any more until Python has done something. */
  private boolean needsPython() {
    return isWoken
        || report.needsPython
        || source.failure() != null
        || source.isBehind(most)
        || (intervalNanos == 0 && report.batches > 0);
  }

  /** Lets Python have the report when it is due, also if no batch follows. */
  private void watchReport() {
    if (!isWatched && isOpen && !isBusy && report.batches > 0) { // the end of a batch looks, too
      isWatched = true;
      TIMER.schedule(this::onTime, report.due(intervalNanos) - System.nanoTime(), TimeUnit.NANOSECONDS);
    }
  }

  private synchronized void onTime() {
    isWatched = false;
    advance();
    watchReport();
  }

  /** On the thread of a worker. */
  private void deliver() {
    long began;
    synchronized (this) {
      isQueued = false;
      if (!isOpen || isBusy || needsPython() || !source.isReady(least)) {
        advance();
        return;
      }
      isBusy = true;
      source.take(most);
      began = System.nanoTime();
    }
    long cpuBefore = THREADS.getCurrentThreadCpuTime();
    List<CompletableFuture<?>> writes = new ArrayList<>(steps.size());
    Step current = null;
    Throwable error = null;
    mark.set(true);
    try {
      for (Step step : steps) {
        current = step;
        step.evaluate(source, writes);
      }
      current = null;
    } catch (Throwable failed) { // Python reports it, whatever it is
      error = failed;
    } finally {
      mark.set(false); // not if the JVM has died
    }
    Step failedStep = current;
    Throwable planFailure = error;
    long cpu = THREADS.getCurrentThreadCpuTime() - cpuBefore;
    CompletableFuture.allOf(writes.toArray(CompletableFuture[]::new))
        .whenComplete((nothing, writeError) -> complete(began, cpu, failedStep, planFailure));
  }

  private synchronized void complete(long began, long cpu, Step failedStep, Throwable error) {
    long now = System.nanoTime();
    boolean hasRows = false;
    for (Step step : steps) {
      step.complete();
      hasRows |= step.rows > 0;
      report.needsPython |= step.needsPython();
    }
    if (error == null) {
      report.add(source, now);
    } else {
      failure = error;
      report.failed = failedStep;
    }
    report.needsPython |= error != null || steps.isEmpty();
    report.workNanos += now - began;
    report.cpuNanos += cpu;
    report.hasRows |= hasRows;
    report.isWanted |= report.isFirst || (hasRows && began - lastBatch > QUIET_NANOS);
    lastBatch = now;
    isBusy = false;
    advance();
    watchReport();
  }

  /** A plan and where its rows go; and what has happened since the last report. */
  private static final class Step {
    private final MessagePlan plan;
    private final RowSink sink;
    /** Rows that the sink writes at the moment. */
    private List<InternalRow> made = List.of();
    private CompletableFuture<Integer> write;
    private long writeBegan;
    private long rows;
    private long sent;
    private long planNanos;
    private long writeNanos;
    private byte[] arrow;
    private List<InternalRow> unwritten = List.of();

    Step(MessagePlan plan, RowSink sink) {
      this.plan = plan;
      this.sink = sink;
    }

    void evaluate(Subscription source, List<CompletableFuture<?>> writes) throws Exception {
      long began = System.nanoTime();
      if (sink == null) {
        arrow = plan.arrow(source);
      } else {
        made = plan.rows(source);
      }
      writeBegan = System.nanoTime();
      planNanos += writeBegan - began;
      if (!made.isEmpty()) {
        write = sink.write(made);
        writes.add(write);
      }
    }

    void complete() {
      if (write == null) {
        return;
      }
      if (write.isCompletedExceptionally()) {
        unwritten = made; // Python tries again, and reports the error if that fails, too
      } else {
        rows += made.size();
        sent += write.join();
      }
      writeNanos += System.nanoTime() - writeBegan;
      made = List.of();
      write = null;
    }

    boolean needsPython() {
      return arrow != null || !unwritten.isEmpty();
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
      var numbers = List.of(rows, sent, planNanos, writeNanos, (long) unwritten.size(), (long) bytes);
      rows = sent = planNanos = writeNanos = 0;
      arrow = null;
      return numbers.stream().map(Object::toString).collect(Collectors.joining(" ")) + " " + plan.observed();
    }
  }

  /** What has happened since the last report. */
  private static final class Report {
    private int batches;
    private int messages;
    private long workNanos;
    private long cpuNanos;
    private boolean hasRows;
    /** Whether the first batch is reported at once: without it, no epoch begins. */
    private boolean isFirst;
    /** Whether Python gets it now. */
    private boolean isWanted;
    /** Whether Python has something to do. */
    private boolean needsPython;
    /** The time of the first batch. */
    private long began;
    /** The step whose plan has failed. */
    private Step failed;
    private final Map<Integer, Long> offsets = new TreeMap<>();

    void add(Subscription source, long now) {
      began = batches == 0 ? now : began;
      batches++;
      messages += source.takenCount();
      offsets.putAll(source.takenOffsets());
    }

    boolean isEmpty() {
      return batches == 0 && !needsPython;
    }

    boolean isDue(long intervalNanos) {
      return batches > 0 && (isWanted || System.nanoTime() >= due(intervalNanos));
    }

    /** Returns when Python gets the report. */
    private long due(long intervalNanos) {
      return began + intervalNanos * (hasRows ? 1 : WITHOUT_ROWS) * (1 + OPEN.get() / MANY_LOOPS);
    }
  }
}
