package streamling.plan;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.Dataset;
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
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A plan over rows in the driver that is evaluated in this thread without a Spark job: a job takes tens of milliseconds,
 * however few rows it has. The plan is Spark's own, and so is the code generated for its projections and filters. It is
 * made once and used for many batches. Not for two threads at once.
 */
public final class LocalPlan {
  private final SQLConf conf;
  private final StructType schema;
  private final BatchClock clock;
  private final List<ObserveStage> observed = new ArrayList<>();
  private final Stage first;
  private Stage target;

  private LocalPlan(Dataset<Row> frame, SQLConf conf) {
    this.conf = conf;
    schema = frame.schema();
    clock = new BatchClock(conf.sessionLocalTimeZone());
    var plan =
        (LogicalPlan) frame.queryExecution().analyzed().transformAllExpressions(new Rewrite<>(clock::replace));
    if (plan.containsPattern(TreePattern.CURRENT_LIKE())) {
      throw new NeedsJob("time");
    }
    var executed = Dataset.ofRows(frame.sparkSession(), plan).queryExecution().executedPlan();
    first = stages(executed, row -> target.take(row));
  }

  /** Returns the plan of {@code frame}, which was made over a {@link BatchPlan#template}. */
  public static LocalPlan of(Dataset<Row> frame) throws NeedsJob {
    SQLConf conf = frame.sparkSession().sessionState().conf();
    return SQLConf.withExistingConf(conf, () -> new LocalPlan(frame, conf));
  }

  /** The driver cannot evaluate a plan; the message is the kind of reason and names, such as {@code operator Union}. */
  public static final class NeedsJob extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NeedsJob(String reason) {
      super(reason);
    }
  }

  /** From the last operator to the first: each one passes its rows on to {@code next}. */
  private Stage stages(SparkPlan plan, Stage next) {
    if (!Seqs.list(plan.subqueries()).isEmpty()) {
      throw new NeedsJob("subquery");
    }
    if (plan instanceof RDDScanExec) {
      return next;
    }
    if (plan instanceof WholeStageCodegenExec wrapper) {
      return stages(wrapper.child(), next);
    }
    if (plan instanceof AdaptiveSparkPlanExec wrapper) {
      return stages(wrapper.inputPlan(), next);
    }
    if (plan instanceof InputAdapter wrapper) {
      return stages(wrapper.child(), next);
    }
    if (plan instanceof ProjectExec project) {
      return stages(project.child(), Stage.project(project, next));
    }
    if (plan instanceof FilterExec filter) {
      return stages(filter.child(), Stage.filter(filter, next));
    }
    if (plan instanceof GenerateExec generate) {
      return stages(generate.child(), Stage.generate(generate, next));
    }
    if (plan instanceof CollectMetricsExec observation) {
      var stage = new ObserveStage(observation, next);
      observed.add(stage);
      return stages(observation.child(), stage);
    }
    throw new NeedsJob(reason(plan));
  }

  private static String reason(SparkPlan plan) {
    if (plan instanceof EvalPythonExec python) {
      var names = Seqs.list(python.udfs()).stream().map(udf -> udf.name()).distinct().sorted();
      return names.collect(Collectors.joining(" ", "python ", ""));
    }
    if (plan instanceof MapInBatchExec) {
      return "executors";
    }
    return plan instanceof ShuffleExchangeLike ? "tasks" : "operator " + plan.nodeName();
  }

  /** Returns the rows over those that {@code source} passes on, as an Arrow stream; null if there are none. */
  public byte[] arrow(Consumer<Stage> source) throws IOException {
    try (var stream = new ArrowStream(this::newWriter)) {
      evaluate(source, stream::add);
      return stream.isEmpty() ? null : stream.bytes();
    }
  }

  private ArrowWriter newWriter() {
    return ArrowWriter.create(schema, conf.sessionLocalTimeZone(), false, conf.arrowUseLargeVarTypes());
  }

  /** Returns the rows over those that {@code source} passes on, as Spark's own. */
  public List<InternalRow> rows(Consumer<Stage> source) {
    List<InternalRow> rows = new ArrayList<>();
    evaluate(source, row -> rows.add(row.copy()));
    return rows;
  }

  /** Returns the rows over those of an Arrow stream, as Spark's own. */
  public List<InternalRow> rowsOfArrow(byte[] data) {
    return rows(
        stage -> {
          try (var stream = new ArrowStreamReader(new ByteArrayInputStream(data), ArrowUtils.rootAllocator())) {
            while (stream.loadNextBatch()) {
              batch(stream.getVectorSchemaRoot()).rowIterator().forEachRemaining(stage::take);
            }
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        });
  }

  /** The rows are valid as long as {@code data} is, which owns the memory. */
  private static ColumnarBatch batch(VectorSchemaRoot data) {
    var columns = data.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ArrowColumnVector[]::new);
    return new ColumnarBatch(columns, data.getRowCount());
  }

  /** Returns the observations inside the plan and their values since the last call, such as {@code rows_0=12}. */
  public String observed() {
    String text = observed.stream().map(ObserveStage::text).collect(Collectors.joining(" "));
    observed.forEach(ObserveStage::reset);
    return text;
  }

  private void evaluate(Consumer<Stage> source, Stage last) {
    clock.advance();
    target = last;
    SQLConf.withExistingConf(
        conf,
        () -> {
          source.accept(first);
          return null;
        });
  }
}
