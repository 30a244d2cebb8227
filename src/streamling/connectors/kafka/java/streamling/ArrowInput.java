package streamling;

import java.util.Iterator;
import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Arrow data as rows that Spark's expressions read. */
final class ArrowInput {
  private ArrowInput() {}

  /** The rows, which are valid as long as the data is. */
  static Iterator rows(VectorSchemaRoot data) {
    List vectors = data.getFieldVectors();
    ColumnVector[] columns = new ColumnVector[vectors.size()];
    for (int number = 0; number < columns.length; number++) {
      columns[number] = new ArrowColumnVector((FieldVector) vectors.get(number));
    }
    return new ColumnarBatch(columns, data.getRowCount()).rowIterator();
  }
}
