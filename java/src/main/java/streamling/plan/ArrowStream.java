package streamling.plan;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter;

/** Rows as an Arrow stream of one batch. */
final class ArrowStream {
  private ArrowStream() {}

  /** Returns what {@code writeRows} has written, and frees the memory of {@code writer}. */
  static byte[] write(ArrowWriter writer, Runnable writeRows) throws IOException {
    try (VectorSchemaRoot root = writer.root()) {
      writeRows.run();
      writer.finish();
      var bytes = new ByteArrayOutputStream();
      try (var stream = new ArrowStreamWriter(root, null, bytes)) {
        stream.start();
        stream.writeBatch();
        stream.end();
      }
      return bytes.toByteArray();
    }
  }
}
