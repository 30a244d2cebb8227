package streamling.plan;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.sql.catalyst.InternalRow;

/** Takes the rows of small batches inside the JVM. */
@FunctionalInterface
public interface RowSink {
  /** Starts to write rows. Completes with the number of those that were sent, once they are durable. Does not throw. */
  CompletableFuture<Integer> write(List<InternalRow> rows);

  /** Returns a sink that discards its rows. */
  static RowSink discard() {
    return rows -> CompletableFuture.completedFuture(rows.size());
  }
}
