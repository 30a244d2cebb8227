package streamling.kafka;

/** A topic has partitions that its subscription does not read. */
public final class NewPartitionsException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  NewPartitionsException() {
    super("the topic has new partitions");
  }
}
