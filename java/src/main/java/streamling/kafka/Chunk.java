package streamling.kafka;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.spark.sql.catalyst.InternalRow;

/** Messages of one partition that were read together. Streams that get the same chunk decode it once. */
final class Chunk {
  final int partition;
  final List<ConsumerRecord<byte[], byte[]>> messages;
  /** How messages are decoded → their rows, one for each. */
  private final Map<String, List<InternalRow>> decoded = new ConcurrentHashMap<>();
  /** Whether several streams got it. */
  final boolean isShared;

  Chunk(int partition, List<ConsumerRecord<byte[], byte[]>> messages, boolean isShared) {
    this.partition = partition;
    this.messages = messages;
    this.isShared = isShared;
  }

  /** Returns the rows of all messages. The first stream that asks for them decodes them; others wait for it. */
  List<InternalRow> decoded(String how, Supplier<List<InternalRow>> decode) {
    return decoded.computeIfAbsent(how, key -> decode.get());
  }

  /** Returns the number of the first message at {@code offset} or later. */
  int indexOf(long offset) {
    int index = 0;
    while (index < messages.size() && messages.get(index).offset() < offset) {
      index++;
    }
    return index;
  }

  /** Some of its messages. */
  record Slice(Chunk chunk, int from, int to) {
    List<ConsumerRecord<byte[], byte[]>> messages() {
      return chunk.messages.subList(from, to);
    }

    int size() {
      return to - from;
    }

    long bytes() {
      long bytes = 0;
      for (var message : messages()) {
        bytes += Math.max(0, message.serializedKeySize()) + Math.max(0, message.serializedValueSize());
      }
      return bytes;
    }
  }
}
