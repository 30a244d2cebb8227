package streamling.plan;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/** Takes the rows of small batches inside the JVM. */
@FunctionalInterface
public interface RowSink {
  /** Writes rows durably. Returns how many of them were sent. */
  int write(List<InternalRow> rows) throws Exception;

  /** Returns a sink that discards its rows. */
  static RowSink discard() {
    return List::size;
  }
}
