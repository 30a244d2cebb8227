package streamling;

import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.TimeoutException;

/** Notices that no broker answers the fetches of a consumer, which itself retries them silently and without end. */
final class BrokerWatch {
  /** A broker answers a fetch at least every 100 ms: after this time without an answer, none is available. */
  private static final long SILENCE_NANOS = 10_000_000_000L;

  private final Metric answers;
  private double answered = -1;
  private long answeredAt;

  BrokerWatch(KafkaConsumer consumer) {
    answers = metric(consumer, "fetch-total", "consumer-fetch-manager-metrics");
  }

  /** Starts waiting for an answer at {@code now}. */
  void restart(long now) {
    answeredAt = now;
  }

  /** Throws if there has been no answer for too long. A consumer that is not {@code fetching} gets none. */
  void check(long now, boolean fetching) {
    double total = ((Double) answers.metricValue()).doubleValue();
    if (total != answered || !fetching) {
      answered = total;
      answeredAt = now;
    } else if (now - answeredAt > SILENCE_NANOS) {
      throw new TimeoutException("the brokers do not answer");
    }
  }

  private static Metric metric(KafkaConsumer consumer, String name, String group) {
    for (Iterator all = consumer.metrics().entrySet().iterator(); all.hasNext(); ) {
      Map.Entry entry = (Map.Entry) all.next();
      MetricName key = (MetricName) entry.getKey();
      if (key.name().equals(name) && key.group().equals(group) && key.tags().size() == 1) {
        return (Metric) entry.getValue();
      }
    }
    throw new IllegalStateException("the Kafka client has no metric " + name);
  }
}
