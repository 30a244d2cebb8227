package streamling.json;

import com.fasterxml.jackson.core.JsonToken;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column and how its values are made of the text of JSON values: exactly, or not at all.
 *
 * <p>Types are int8 to int64, uint8 to uint64, float16 to float64, decimal PRECISION SCALE, boolean, string, binary,
 * binary BYTES, date, time DIGITS, timestamp DIGITS (of a second) and null. In keys every value may be written as a
 * text: true, NaN, Infinity, and bytes with hyphens, as in a UUID.
 */
record JsonColumn(String name, String type, int first, int second, boolean ofKey) implements Serializable {
  private static final float LARGEST_HALF = 65504;
  private static final String NUMBER = "+-0123456789.eE";

  static List<JsonColumn> of(List<String> names, List<String> types, boolean ofKey) {
    return IntStream.range(0, names.size()).mapToObj(each -> of(names.get(each), types.get(each), ofKey)).toList();
  }

  private static JsonColumn of(String name, String type, boolean ofKey) {
    String[] words = type.split(" ");
    int first = words.length > 1 ? Integer.parseInt(words[1]) : 0;
    int second = words.length > 2 ? Integer.parseInt(words[2]) : 0;
    return new JsonColumn(name, words[0], first, second, ofKey);
  }

  /** The value as Spark holds it, or null if it does not fit; of a string, `text` is its content. */
  Object value(String text, JsonToken token) {
    if (type.equals("string")) {
      return UTF8String.fromString(text);
    }
    if (type.equals("boolean")) {
      boolean isBoolean = token.isBoolean() || (ofKey && (text.equals("true") || text.equals("false")));
      return isBoolean ? Boolean.valueOf(text) : null;
    }
    if (token.isBoolean() || token.isStructStart()) {
      return null;
    }
    try {
      if (isText()) {
        return token.isNumeric() ? null : parsed(text);
      }
      return number(text.trim());
    } catch (NumberFormatException error) {
      return null;
    }
  }

  /** Whether values are written as strings only. */
  private boolean isText() {
    return switch (type) {
      case "binary", "date", "time", "timestamp" -> true;
      default -> false;
    };
  }

  private Object parsed(String text) {
    return switch (type) {
      case "binary" -> binary(ofKey ? text.replace("-", "") : text);
      case "date" -> JsonTexts.date(text);
      case "time" -> JsonTexts.time(text, first);
      default -> JsonTexts.timestamp(text, first);
    };
  }

  private byte[] binary(String text) {
    byte[] bytes = JsonTexts.bytes(text);
    return first == 0 || bytes.length == first ? bytes : null;
  }

  private Object number(String text) {
    return switch (type) {
      case "int8" -> Byte.valueOf((byte) whole(text, Byte.MIN_VALUE, Byte.MAX_VALUE));
      case "int16" -> Short.valueOf((short) whole(text, Short.MIN_VALUE, Short.MAX_VALUE));
      case "int32" -> Integer.valueOf((int) whole(text, Integer.MIN_VALUE, Integer.MAX_VALUE));
      case "int64" -> Long.valueOf(whole(text, Long.MIN_VALUE, Long.MAX_VALUE));
      case "uint8" -> Short.valueOf((short) whole(text, 0, 255));
      case "uint16" -> Integer.valueOf((int) whole(text, 0, 65535));
      case "uint32" -> Long.valueOf(whole(text, 0, 4294967295L));
      case "uint64" -> unsigned(text);
      case "float16" -> real32(text, LARGEST_HALF);
      case "float32" -> real32(text, Float.MAX_VALUE);
      case "float64" -> real64(text);
      case "decimal" -> decimal(text);
      default -> null;
    };
  }

  private static long whole(String text, long least, long most) {
    long value = Long.parseLong(only("+-0123456789", text));
    if (value < least || value > most) {
      throw new NumberFormatException();
    }
    return value;
  }

  /** Spark holds them as decimals of 20 digits. */
  private static Decimal unsigned(String text) {
    long value = Long.parseUnsignedLong(only("+0123456789", text));
    return Decimal.apply(new BigDecimal(new BigInteger(Long.toUnsignedString(value))), 20, 0);
  }

  private Double real64(String text) {
    double value = isWord(text) ? Double.parseDouble(text) : Double.parseDouble(only(NUMBER, text));
    return Double.isInfinite(value) && !isWord(text) ? null : Double.valueOf(value);
  }

  private Float real32(String text, float most) {
    float value = isWord(text) ? Float.parseFloat(text) : Float.parseFloat(only(NUMBER, text));
    return Math.abs(value) > most && !isWord(text) ? null : Float.valueOf(value);
  }

  private boolean isWord(String text) {
    return ofKey && (text.equals("NaN") || text.equals("Infinity") || text.equals("-Infinity"));
  }

  /** Java's parsers also accept digits of other scripts, suffixes, hexadecimal numbers and words. */
  private static String only(String allowed, String text) {
    for (int at = 0; at < text.length(); at++) {
      if (allowed.indexOf(text.charAt(at)) < 0) {
        throw new NumberFormatException();
      }
    }
    return text;
  }

  /** Reads the digits itself: BigDecimal would write out what an exponent such as 1e999999999 stands for. */
  private Decimal decimal(String text) {
    int at = text.startsWith("-") || text.startsWith("+") ? 1 : 0;
    int start = at;
    boolean hasPoint = false;
    long exponent = 0;
    var digits = new StringBuilder(text.startsWith("-") ? "-0" : "0");
    int sign = digits.length();
    for (; at < text.length() && text.charAt(at) != 'e' && text.charAt(at) != 'E'; at++) {
      char digit = text.charAt(at);
      if (digit == '.' && !hasPoint) {
        hasPoint = true;
      } else if (digit < '0' || digit > '9') {
        return null;
      } else {
        digits.append(digit);
        exponent -= hasPoint ? 1 : 0;
      }
    }
    if (at - start == (hasPoint ? 1 : 0)) {
      return null; // no digit
    }
    exponent += at < text.length() ? exponent(text.substring(at + 1)) : 0;
    return scaled(digits, sign, exponent);
  }

  /** The number after the letter e; one that is too large for any decimal is as good as another. */
  private static long exponent(String text) {
    String digits = text.startsWith("-") || text.startsWith("+") ? text.substring(1) : text;
    if (digits.isEmpty()) {
      throw new NumberFormatException();
    }
    only("0123456789", digits);
    long value = 0;
    for (int at = 0; at < digits.length(); at++) {
      value = Math.min(10 * value + digits.charAt(at) - '0', 1L << 40);
    }
    return text.startsWith("-") ? -value : value;
  }

  /** DIGITS times ten to the EXPONENT, if that is a number of the type; digits begin after a sign and a zero. */
  private Decimal scaled(StringBuilder digits, int begin, long exponent) {
    int precision = first;
    int scale = second;
    int leading = begin;
    while (leading < digits.length() && digits.charAt(leading) == '0') {
      leading++;
    }
    int end = digits.length();
    while (end > leading && digits.charAt(end - 1) == '0') {
      end--;
      exponent++;
    }
    int significant = end - leading;
    if (significant > 0 && (exponent < -scale || significant + exponent > precision - scale)) {
      return null;
    }
    var unscaled = new StringBuilder(precision + 2).append(digits, 0, begin).append(digits, leading, end);
    for (long zeros = significant == 0 ? 0 : exponent + scale; zeros > 0; zeros--) {
      unscaled.append('0');
    }
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return Decimal.createUnsafe(Long.parseLong(unscaled.toString()), precision, scale);
    }
    return Decimal.apply(new BigDecimal(new BigInteger(unscaled.toString()), scale), precision, scale);
  }
}
