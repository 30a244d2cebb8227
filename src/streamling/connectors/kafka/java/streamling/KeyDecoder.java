package streamling;

import com.fasterxml.jackson.core.JsonToken;
import java.io.Serializable;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes message keys into the columns of a primary key. A key is a JSON object, plain or in the envelope of Kafka
 * Connect, or the text of the only column, or the texts of all columns with colons between them. Columns that it does
 * not hold exactly are null. Rows are those of `JsonDecoder`.
 */
public final class KeyDecoder implements Serializable {
  private static final long serialVersionUID = 1L;

  private final JsonColumn[] columns;
  private final JsonDecoder object;
  private final JsonDecoder envelope =
      new JsonDecoder(Collections.singletonList("payload"), Collections.singletonList("string"));

  public KeyDecoder(List names, List types) {
    columns = JsonColumn.ofKey(names, types);
    object = new JsonDecoder(columns);
  }

  /** The row of a key. The code that Spark generates calls it. */
  public InternalRow decode(UTF8String key) {
    String text = key.toString();
    return new GenericInternalRow(text.startsWith("{") ? members(key.getBytes()) : parts(text));
  }

  private Object[] members(byte[] key) {
    Object[] row = object.fields(key);
    if (row[0] == null && isMissing(row)) {
      Object payload = envelope.fields(key)[JsonDecoder.HEAD];
      Object[] inner = payload == null ? row : object.fields(((UTF8String) payload).getBytes());
      for (int field = JsonDecoder.HEAD; field < row.length; field++) {
        row[field] = row[field] == null ? inner[field] : row[field];
      }
    }
    return row;
  }

  private static boolean isMissing(Object[] row) {
    for (int field = JsonDecoder.HEAD; field < row.length; field++) {
      if (row[field] == null) {
        return true;
      }
    }
    return false;
  }

  private Object[] parts(String key) {
    Object[] row = new Object[JsonDecoder.HEAD + columns.length];
    String[] parts = columns.length == 1 ? new String[] {key} : key.split(":", -1);
    for (int position = 0; position < columns.length && parts.length == columns.length; position++) {
      row[JsonDecoder.HEAD + position] = columns[position].value(parts[position], JsonToken.VALUE_STRING);
    }
    return row;
  }
}
