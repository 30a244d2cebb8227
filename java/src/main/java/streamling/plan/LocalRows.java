package streamling.plan;

import java.io.IOException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.arrow.ArrowWriter;

/** Rows that need no Spark job, because the optimizer has computed them. */
public final class LocalRows {
  /** More rows are faster as a job: Py4j encodes bytes as text. */
  private static final int MOST = 10_000;

  private LocalRows() {}

  /** Returns whether it takes no Spark job to compute the rows of {@code frame}. */
  public static boolean isLocal(Dataset<Row> frame) {
    return scan(frame) != null;
  }

  /** Returns the rows of {@code frame} as an Arrow stream; null if a job is needed. */
  public static byte[] arrow(Dataset<Row> frame) throws IOException {
    LocalTableScanExec scan = scan(frame);
    if (scan == null) {
      return null;
    }
    try (var stream = new ArrowStream(() -> ArrowWriter.create(scan.schema(), "UTC", true, false))) {
      Seqs.list(scan.rows()).forEach(stream::add);
      return stream.bytes();
    }
  }

  private static LocalTableScanExec scan(Dataset<Row> frame) {
    return frame.queryExecution().executedPlan() instanceof LocalTableScanExec scan
            && Seqs.list(scan.rows()).size() <= MOST
        ? scan
        : null;
  }
}
