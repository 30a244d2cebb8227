package streamling.plan;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.BitSet;

/**
 * Marks who evaluates something in this JVM, in a file that outlives it: if an evaluation ends the JVM, the file says
 * whose it was. Marking costs nanoseconds, because the file is mapped into memory.
 */
public final class Evaluations {
  /** There are no more marks than bytes. */
  private static final int BYTES = 1 << 16;
  private static final Path PATH = Path.of(System.getProperty("java.io.tmpdir"), "evaluations");

  private static final BitSet USED = new BitSet();
  private static MappedByteBuffer file;

  private Evaluations() {}

  /** Returns a mark, which is not set. */
  public static synchronized Mark newMark() {
    int number = USED.nextClearBit(0);
    if (number >= BYTES) {
      throw new IllegalStateException("too many streams");
    }
    if (file == null) {
      file = map();
    }
    USED.set(number);
    return new Mark(file, number);
  }

  private static MappedByteBuffer map() {
    var how = new StandardOpenOption[] {StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE};
    try (var channel = FileChannel.open(PATH, how)) {
      return channel.map(FileChannel.MapMode.READ_WRITE, 0, BYTES);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Whether somebody evaluates something at the moment. */
  public static final class Mark {
    private final MappedByteBuffer bytes;
    private final int number;

    private Mark(MappedByteBuffer bytes, int number) {
      this.bytes = bytes;
      this.number = number;
    }

    /** Returns the number of its byte, which is 1 while it is set, and the file, such as {@code 7 /tmp/evaluations}. */
    public String place() {
      return number + " " + PATH;
    }

    public void set(boolean isEvaluating) {
      bytes.put(number, (byte) (isEvaluating ? 1 : 0));
    }

    public void release() {
      synchronized (Evaluations.class) {
        USED.clear(number);
      }
    }
  }
}
