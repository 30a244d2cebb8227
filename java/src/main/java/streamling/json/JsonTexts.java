package streamling.json;

import java.time.DateTimeException;
import java.time.LocalDate;

/**
 * Reads texts that stand for bytes, dates and times of day, from left to right. Nothing else may stand before or after
 * them. A text of another form raises NumberFormatException.
 */
final class JsonTexts {
  private static final long SECOND = 1_000_000L; // in microseconds, as Spark counts timestamps
  private static final long MINUTE = 60 * SECOND;
  private static final long HOUR = 60 * MINUTE;
  private static final long DAY = 24 * HOUR;

  /** The years 1 to 9999. */
  private static final long FIRST = LocalDate.of(1, 1, 1).toEpochDay() * DAY;
  private static final long END = LocalDate.of(10000, 1, 1).toEpochDay() * DAY;

  private final String text;
  private int at;

  private JsonTexts(String text) {
    this.text = text;
  }

  /** Two hex digits for each byte. */
  static byte[] bytes(String text) {
    var bytes = new byte[text.length() / 2];
    for (int at = 0; at < text.length(); at++) {
      char digit = text.charAt(at);
      int value = digit < 128 ? Character.digit(digit, 16) : -1;
      if (value < 0 || text.length() % 2 != 0) {
        throw new NumberFormatException();
      }
      bytes[at / 2] = (byte) (16 * bytes[at / 2] + value);
    }
    return bytes;
  }

  /** YYYY-MM-DD, as days since 1970. */
  static Integer date(String text) {
    var reader = new JsonTexts(text);
    long day = reader.day();
    reader.end();
    return (int) day;
  }

  /** HH:MM[:SS[.fraction]], as nanoseconds; only zeros after `digits` digits of the fraction. */
  static Long time(String text, int digits) {
    var reader = new JsonTexts(text);
    long time = reader.clock(digits);
    reader.end();
    return 1000 * time;
  }

  /** YYYY-MM-DD[THH:MM[:SS[.fraction]][zone]] with a space or T, as microseconds since 1970 in UTC. */
  static Long timestamp(String text, int digits) {
    var reader = new JsonTexts(text);
    long time = reader.day() * DAY;
    if (reader.skip('T') || reader.skip(' ')) {
      time += reader.clock(digits) - reader.zone();
    }
    reader.end();
    return within(time, FIRST, END);
  }

  private long day() {
    int year = (int) number(4, 10000);
    expect('-');
    int month = (int) number(2, 13);
    expect('-');
    try {
      return within(LocalDate.of(year, month, (int) number(2, 32)).toEpochDay(), FIRST / DAY, END / DAY);
    } catch (DateTimeException error) {
      throw new NumberFormatException();
    }
  }

  private long clock(int digits) {
    long time = number(2, 24) * HOUR;
    expect(':');
    time += number(2, 60) * MINUTE;
    if (skip(':')) {
      time += number(2, 60) * SECOND;
      if (skip('.')) {
        time += fraction(digits);
      }
    }
    return time;
  }

  private long fraction(int digits) {
    long unit = SECOND;
    long fraction = 0;
    int start = at;
    for (; at < text.length() && isDigit(text.charAt(at)); at++) {
      int digit = text.charAt(at) - '0';
      if (at - start >= digits && digit != 0) {
        throw new NumberFormatException();
      }
      unit /= 10;
      fraction += digit * unit;
    }
    if (at == start) {
      throw new NumberFormatException();
    }
    return fraction;
  }

  /** Z or ±HH[[:]MM], at most 18 hours; no zone is UTC. */
  private long zone() {
    if (skip('Z') || at == text.length()) {
      return 0;
    }
    int sign = skip('-') ? -1 : 1;
    if (sign > 0) {
      expect('+');
    }
    long offset = number(2, 19) * HOUR;
    if (skip(':') || at < text.length()) {
      offset += number(2, 60) * MINUTE;
    }
    return sign * within(offset, 0, 18 * HOUR + 1);
  }

  /** A number of so many digits below a limit. */
  private long number(int digits, int limit) {
    long number = 0;
    for (int end = at + digits; at < end; at++) {
      if (at >= text.length() || !isDigit(text.charAt(at))) {
        throw new NumberFormatException();
      }
      number = 10 * number + text.charAt(at) - '0';
    }
    return within(number, 0, limit);
  }

  private static boolean isDigit(char character) {
    return character >= '0' && character <= '9';
  }

  private static long within(long number, long least, long limit) {
    if (number < least || number >= limit) {
      throw new NumberFormatException();
    }
    return number;
  }

  private boolean skip(char character) {
    boolean found = at < text.length() && text.charAt(at) == character;
    at += found ? 1 : 0;
    return found;
  }

  private void expect(char character) {
    if (!skip(character)) {
      throw new NumberFormatException();
    }
  }

  private void end() {
    if (at < text.length()) {
      throw new NumberFormatException();
    }
  }
}
