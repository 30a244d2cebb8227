package streamling;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike;
import org.apache.spark.sql.execution.python.EvalPythonExec;
import org.apache.spark.sql.execution.python.MapInBatchExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;

/**
 * A plan over the messages of a topic, or over Arrow data, that is evaluated in this thread without a Spark job: a job
 * takes tens of milliseconds, however few rows it has. The plan is Spark's own, and so is the code generated for its
 * projections and filters. It is made once and used for many batches. Not for two threads at once.
 */
public final class LocalPlan {
  private final SQLConf conf;
  private final StructType schema;
  private final BatchClock clock;
  private final Function1 toRow;
  private final Stage first;
  private final LastStage last;
  private final List observed;

  private LocalPlan(
      SQLConf conf, StructType schema, BatchClock clock, Function1 toRow, Stage first, LastStage last, List observed) {
    this.conf = conf;
    this.schema = schema;
    this.clock = clock;
    this.toRow = toRow;
    this.first = first;
    this.last = last;
    this.observed = observed;
  }

  /** Kafka's columns as a frame over which such a plan is made. */
  public static Dataset messages(SparkSession session, boolean headers) {
    return BatchPlan.template(session, KafkaRecordToRowConverter.kafkaSchema(headers));
  }

  /**
   * The plan of {@code frame}, which was made over a {@link BatchPlan#template}; if it needs a Spark job, the kind of
   * reason and names, such as {@code operator Union}. {@code headers}: whether messages have that column.
   */
  public static Object of(final Dataset frame, final boolean headers) {
    final SparkSession session = (SparkSession) frame.sparkSession();
    final SQLConf conf = session.sessionState().conf();
    try {
      return SQLConf.withExistingConf(
          conf,
          new AbstractFunction0() {
            public Object apply() {
              return make(session, conf, frame, headers);
            }
          });
    } catch (NeedsJob reason) {
      return reason.getMessage();
    }
  }

  /** The driver cannot evaluate a plan; the message says why. */
  private static final class NeedsJob extends RuntimeException {
    NeedsJob(String reason) {
      super(reason);
    }
  }

  private static LocalPlan make(SparkSession session, SQLConf conf, Dataset frame, boolean headers) {
    BatchClock clock = new BatchClock(conf.sessionLocalTimeZone());
    LogicalPlan plan = (LogicalPlan) frame.queryExecution().analyzed().transformAllExpressions(clock);
    if (plan.containsPattern(TreePattern.CURRENT_LIKE())) {
      throw new NeedsJob("time");
    }
    LastStage last = new LastStage();
    List observed = new ArrayList();
    Stage first = stages(Dataset.ofRows(session, plan).queryExecution().executedPlan(), last, observed);
    Function1 toRow = new KafkaRecordToRowConverter().toUnsafeRowProjector(headers);
    return new LocalPlan(conf, frame.schema(), clock, toRow, first, last, observed);
  }

  /** From the last operator to the first: each one passes its rows on to {@code next}. */
  private static Stage stages(SparkPlan plan, Stage next, List observed) {
    if (!plan.subqueries().isEmpty()) {
      throw new NeedsJob("subquery");
    }
    if (plan instanceof RDDScanExec) {
      return next;
    }
    if (plan instanceof WholeStageCodegenExec) {
      return stages(((WholeStageCodegenExec) plan).child(), next, observed);
    }
    if (plan instanceof AdaptiveSparkPlanExec) {
      return stages(((AdaptiveSparkPlanExec) plan).inputPlan(), next, observed);
    }
    if (plan instanceof InputAdapter) {
      return stages(((InputAdapter) plan).child(), next, observed);
    }
    if (plan instanceof ProjectExec) {
      return stages(((ProjectExec) plan).child(), new ProjectStage((ProjectExec) plan, next), observed);
    }
    if (plan instanceof FilterExec) {
      return stages(((FilterExec) plan).child(), new FilterStage((FilterExec) plan, next), observed);
    }
    if (plan instanceof GenerateExec) {
      return stages(((GenerateExec) plan).child(), new GenerateStage((GenerateExec) plan, next), observed);
    }
    if (plan instanceof CollectMetricsExec) {
      ObserveStage stage = new ObserveStage((CollectMetricsExec) plan, next);
      observed.add(stage);
      return stages(((CollectMetricsExec) plan).child(), stage, observed);
    }
    throw new NeedsJob(reasonOf(plan));
  }

  private static String reasonOf(SparkPlan plan) {
    if (plan instanceof EvalPythonExec) {
      return "python" + names(((EvalPythonExec) plan).udfs());
    }
    if (plan instanceof MapInBatchExec) {
      return "executors";
    }
    if (plan instanceof ShuffleExchangeLike) {
      return "tasks";
    }
    return "operator " + plan.nodeName();
  }

  private static String names(Seq functions) {
    Set names = new TreeSet();
    for (scala.collection.Iterator all = functions.iterator(); all.hasNext(); ) {
      names.add(((PythonUDF) all.next()).name());
    }
    StringBuilder text = new StringBuilder();
    for (Iterator all = names.iterator(); all.hasNext(); ) {
      text.append(' ').append(all.next());
    }
    return text.toString();
  }

  /** The rows of the messages that were last taken from {@code source}, as an Arrow stream. */
  public byte[] arrow(Subscription source) throws IOException {
    ArrowWriter writer =
        ArrowWriter.create(schema, conf.sessionLocalTimeZone(), false, conf.arrowUseLargeVarTypes());
    try {
      evaluate(source.taken(), new ArrowRows(writer));
      writer.finish();
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      ArrowStreamWriter stream = new ArrowStreamWriter(writer.root(), null, bytes);
      stream.start();
      stream.writeBatch();
      stream.end();
      return bytes.toByteArray();
    } finally {
      writer.root().close();
    }
  }

  /** The same as Spark's own rows. */
  public List rows(Subscription source) {
    CopiedRows rows = new CopiedRows();
    evaluate(source.taken(), rows);
    return rows.copies;
  }

  /** The rows over those of an Arrow stream, as Spark's own. */
  public List rowsOfArrow(byte[] data) throws IOException {
    CopiedRows rows = new CopiedRows();
    ArrowStreamReader stream = new ArrowStreamReader(new ByteArrayInputStream(data), ArrowUtils.rootAllocator());
    try {
      while (stream.loadNextBatch()) {
        evaluate(ArrowInput.rows(stream.getVectorSchemaRoot()), rows);
      }
    } finally {
      stream.close();
    }
    return rows.copies;
  }

  /** The observations inside the plan and their values for the last batch, such as {@code rows_0=12}. */
  public String observed() {
    StringBuilder text = new StringBuilder();
    for (int number = 0; number < observed.size(); number++) {
      ObserveStage stage = (ObserveStage) observed.get(number);
      text.append(stage.name).append('=').append(stage.text()).append(' ');
    }
    return text.toString();
  }

  private void evaluate(final List messages, RowTarget target) {
    evaluate(
        new Iterator() {
          private int number;

          public boolean hasNext() {
            return number < messages.size();
          }

          public Object next() {
            return toRow.apply(messages.get(number++));
          }

          public void remove() {
            throw new UnsupportedOperationException();
          }
        },
        target);
  }

  private void evaluate(final Iterator rows, RowTarget target) {
    clock.advance();
    for (int number = 0; number < observed.size(); number++) {
      ((ObserveStage) observed.get(number)).reset();
    }
    last.target = target;
    SQLConf.withExistingConf(
        conf,
        new AbstractFunction0() {
          public Object apply() {
            while (rows.hasNext()) {
              first.take((InternalRow) rows.next());
            }
            return null;
          }
        });
  }

  /** Takes the rows of a batch. */
  interface RowTarget {
    void add(InternalRow row);
  }

  private static final class ArrowRows implements RowTarget {
    private final ArrowWriter writer;

    ArrowRows(ArrowWriter writer) {
      this.writer = writer;
    }

    public void add(InternalRow row) {
      writer.write(row);
    }
  }

  private static final class CopiedRows implements RowTarget {
    private final List copies = new ArrayList();

    public void add(InternalRow row) {
      copies.add(row.copy());
    }
  }

  private static final class LastStage extends Stage {
    private RowTarget target;

    void take(InternalRow row) {
      target.add(row);
    }
  }
}
