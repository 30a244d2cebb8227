package streamling.json;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes JSON messages into rows. A message is exactly one JSON object whose values fit their columns, or it is
 * rejected. (Spark's from_json ignores text after the object, rounds decimals and accepts single quotes.)
 */
public final class JsonDecoder implements Decoder {
  private static final long serialVersionUID = 1L;

  /** Kinds of problems, by their names in invalid_messages.py. */
  private static final UTF8String NOT_ONE_OBJECT = UTF8String.fromString("json");
  private static final UTF8String MISFIT = UTF8String.fromString("json value");

  /** Characters of a message or value that an error shows. */
  private static final int SHOWN = 200;

  /** The same limit as in types/json_depth.py. */
  private static final int MOST_LEVELS = 200;

  /**
   * Jackson's other limits would reject long numbers, texts and names. Names come from outside: they are not interned,
   * and names whose hashes collide are not an error.
   */
  private static final JsonFactory FACTORY = factory();

  private final List<JsonColumn> columns;
  private final Map<String, Integer> positions = new HashMap<>();

  JsonDecoder(List<JsonColumn> columns) {
    this.columns = columns;
    for (int position = 0; position < columns.size(); position++) {
      positions.put(columns.get(position).name(), position);
    }
  }

  /** Returns the decoded {@code message}; null for null. {@link JsonColumn} lists the types. */
  public static Column column(Column message, List<String> names, List<String> types, String rowType) {
    return new JsonDecoder(JsonColumn.of(names, types, false)).over(message, rowType);
  }

  /** Returns the row of a message. The code that Spark generates calls it. */
  public InternalRow decode(byte[] message) {
    return new GenericInternalRow(fields(message));
  }

  /** The fields of the row of a message. */
  Object[] fields(byte[] message) {
    var row = new Object[HEAD + columns.size()];
    String reason = unreadable(message);
    if (reason != null) {
      return rejected(NOT_ONE_OBJECT, reason);
    }
    try {
      String misfit = decode(FACTORY.createParser(message), row);
      return misfit == null ? row : rejected(MISFIT, misfit);
    } catch (JsonProcessingException error) {
      return rejected(NOT_ONE_OBJECT, about(message, firstLine(error.getOriginalMessage())));
    } catch (IOException error) {
      throw new IllegalStateException(error); // there is no file to fail
    }
  }

  /** Puts the values of an object into a row; returns the first one that does not fit, with its column. */
  private String decode(JsonParser parser, Object[] row) throws IOException {
    String misfit = null;
    parser.nextToken();
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      Integer position = positions.get(parser.currentName());
      JsonToken token = parser.nextToken();
      if (position == null) {
        parser.skipChildren();
      } else if (token != JsonToken.VALUE_NULL) {
        JsonColumn column = columns.get(position);
        String text = token.isStructStart() ? compact(parser) : parser.getText();
        Object value = column.value(text, token);
        row[HEAD + position] = value;
        if (value == null && misfit == null) {
          misfit = column.name() + " = " + shown(text);
        }
      }
    }
    if (parser.nextToken() != null) {
      throw new JsonParseException(parser, "another value follows the object");
    }
    return misfit;
  }

  /** The object or array that the parser is at, without spaces, its numbers as they are written. */
  private static String compact(JsonParser parser) throws IOException {
    var text = new StringWriter();
    try (JsonGenerator json = FACTORY.createGenerator(text)) {
      int levels = 0;
      do {
        JsonToken token = levels == 0 ? parser.currentToken() : parser.nextToken();
        levels += token.isStructStart() ? 1 : token.isStructEnd() ? -1 : 0;
        if (token.isNumeric()) {
          json.writeNumber(parser.getText());
        } else {
          json.copyCurrentEvent(parser);
        }
      } while (levels > 0);
    }
    return text.toString();
  }

  /** What is wrong with a message that Jackson would not notice, or null. */
  private static String unreadable(byte[] message) {
    if (!UTF8String.fromBytes(message).isValid()) {
      return "it is not UTF-8";
    }
    int start = 0;
    while (start < message.length && isSpace(message[start])) {
      start++;
    }
    // Jackson skips a byte order mark, and takes a zero byte in second place for UTF-16.
    if (start == message.length || message[start] != '{' || (message.length > 1 && message[1] == 0)) {
      return about(message, "it does not begin with {");
    }
    return hasHalfPair(message) ? about(message, "an escape is half of a surrogate pair") : null;
  }

  private static boolean isSpace(byte character) {
    return character == ' ' || character == '\t' || character == '\n' || character == '\r';
  }

  /** Whether an escape stands for half of a surrogate pair, which is not a character. */
  private static boolean hasHalfPair(byte[] message) {
    for (int at = 0; at < message.length; at++) {
      if (message[at] == '\\') {
        int unit = escaped(message, at);
        if (Character.isLowSurrogate((char) unit)) {
          return true;
        }
        if (Character.isHighSurrogate((char) unit)) {
          at += 6;
          if (!Character.isLowSurrogate((char) escaped(message, at))) {
            return true;
          }
        }
        at++; // the character after the backslash may be another one
      }
    }
    return false;
  }

  /** The number in an escape such as \u0041; 0 if there is none. */
  private static int escaped(byte[] message, int at) {
    if (at + 6 > message.length || message[at] != '\\' || message[at + 1] != 'u') {
      return 0;
    }
    int unit = 0;
    for (int digit = at + 2; digit < at + 6; digit++) {
      unit = 16 * unit + Math.max(Character.digit((char) message[digit], 16), 0);
    }
    return unit;
  }

  private Object[] rejected(UTF8String kind, String detail) {
    var row = new Object[HEAD + columns.size()];
    row[0] = kind;
    row[1] = UTF8String.fromString(detail);
    return row;
  }

  private static String about(byte[] message, String reason) {
    return shown(new String(message, StandardCharsets.UTF_8)) + " (" + reason + ")";
  }

  private static String shown(String text) {
    return text.codePointCount(0, text.length()) <= SHOWN ? text : text.substring(0, text.offsetByCodePoints(0, SHOWN));
  }

  private static String firstLine(String text) {
    int end = text.indexOf('\n');
    return shown(end < 0 ? text : text.substring(0, end));
  }

  private static JsonFactory factory() {
    var limits = StreamReadConstraints.builder().maxNestingDepth(MOST_LEVELS);
    limits.maxNumberLength(Integer.MAX_VALUE).maxStringLength(Integer.MAX_VALUE).maxNameLength(Integer.MAX_VALUE);
    return new JsonFactoryBuilder()
        .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
        .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW)
        .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
        .streamReadConstraints(limits.build())
        .build();
  }
}
