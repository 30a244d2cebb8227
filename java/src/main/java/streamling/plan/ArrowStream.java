package streamling.plan;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.function.Supplier;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;

/** Collects rows for an Arrow stream of one batch. Without rows, no memory is allocated. */
final class ArrowStream implements AutoCloseable {
  private final Supplier<ArrowWriter> newWriter;
  private ArrowWriter writer;

  ArrowStream(Supplier<ArrowWriter> newWriter) {
    this.newWriter = newWriter;
  }

  void add(InternalRow row) {
    writer().write(row);
  }

  boolean isEmpty() {
    return writer == null;
  }

  byte[] bytes() throws IOException {
    writer().finish();
    var bytes = new ByteArrayOutputStream();
    try (var stream = new ArrowStreamWriter(writer.root(), null, bytes)) {
      stream.start();
      stream.writeBatch();
      stream.end();
    }
    return bytes.toByteArray();
  }

  private ArrowWriter writer() {
    if (writer == null) {
      writer = newWriter.get();
    }
    return writer;
  }

  @Override
  public void close() {
    if (writer != null) {
      writer.root().close();
    }
  }
}
