package streamling.kafka;

import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.TimeoutException;

/** Notices that no broker answers the fetches of a consumer, which itself retries them silently and without end. */
final class BrokerWatch {
  /** A broker answers a fetch at least every 100 ms: after this time without an answer, none is available. */
  private static final long SILENCE_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final Metric answers;
  private double answered = -1;
  private long answeredAt;

  BrokerWatch(KafkaConsumer<?, ?> consumer) {
    answers =
        consumer.metrics().entrySet().stream()
            .filter(metric -> isFetchTotal(metric.getKey()))
            .findFirst()
            .orElseThrow(() -> new IllegalStateException("the Kafka client has no metric fetch-total"))
            .getValue();
  }

  /** Starts waiting for an answer at {@code now}. */
  void restart(long now) {
    answeredAt = now;
  }

  /** Throws if there has been no answer for too long. A consumer that is not {@code fetching} gets none. */
  void check(long now, boolean fetching) {
    double total = (Double) answers.metricValue();
    if (total != answered || !fetching) {
      answered = total;
      answeredAt = now;
    } else if (now - answeredAt > SILENCE_NANOS) {
      throw new TimeoutException("the brokers do not answer");
    }
  }

  /** Not one of the metrics with this name that each broker or topic has. */
  private static boolean isFetchTotal(MetricName name) {
    return name.name().equals("fetch-total")
        && name.group().equals("consumer-fetch-manager-metrics")
        && name.tags().size() == 1;
  }
}
