package streamling.json;

import com.fasterxml.jackson.core.JsonToken;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes message keys into the columns of a primary key. A key is a JSON object, plain or in the envelope of Kafka
 * Connect, or the text of the only column, or the texts of all columns with colons between them. Columns that it does
 * not hold exactly are null. Rows are those of {@link JsonDecoder}.
 */
public final class KeyDecoder implements Decoder {
  private static final long serialVersionUID = 1L;

  private static final JsonDecoder ENVELOPE =
      new JsonDecoder(JsonColumn.of(List.of("payload"), List.of("string"), false));

  private final List<JsonColumn> columns;
  private final JsonDecoder object;

  private KeyDecoder(List<JsonColumn> columns) {
    this.columns = columns;
    object = new JsonDecoder(columns);
  }

  /** Returns the decoded {@code text}; null for null. {@link JsonColumn} lists the types. */
  public static Column column(Column text, List<String> names, List<String> types, String rowType) {
    return new KeyDecoder(JsonColumn.of(names, types, true)).over(text, rowType);
  }

  /** Returns the row of a key. The code that Spark generates calls it. */
  public InternalRow decode(UTF8String key) {
    String text = key.toString();
    return new GenericInternalRow(text.startsWith("{") ? members(key.getBytes()) : parts(text));
  }

  private Object[] members(byte[] key) {
    Object[] row = object.fields(key);
    if (row[0] == null && columnsOf(row).contains(null)) {
      Object payload = ENVELOPE.fields(key)[HEAD];
      Object[] inner = payload == null ? row : object.fields(((UTF8String) payload).getBytes());
      for (int field = HEAD; field < row.length; field++) {
        row[field] = row[field] == null ? inner[field] : row[field];
      }
    }
    return row;
  }

  private static List<Object> columnsOf(Object[] row) {
    return Arrays.asList(row).subList(HEAD, row.length);
  }

  private Object[] parts(String key) {
    var row = new Object[HEAD + columns.size()];
    String[] parts = columns.size() == 1 ? new String[] {key} : key.split(":", -1);
    for (int position = 0; position < columns.size() && parts.length == columns.size(); position++) {
      row[HEAD + position] = columns.get(position).value(parts[position], JsonToken.VALUE_STRING);
    }
    return row;
  }
}
