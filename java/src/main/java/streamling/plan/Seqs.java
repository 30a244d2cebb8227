package streamling.plan;

import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Scala's sequences, which Spark's plans consist of. Most of their methods are ambiguous in Java. */
final class Seqs {
  private Seqs() {}

  @SafeVarargs
  static <T> Seq<T> of(T... items) {
    return from(List.of(items));
  }

  static <T> Seq<T> from(List<T> items) {
    return PythonUtils.toSeq(items);
  }

  static <T> List<T> list(Seq<T> items) {
    return CollectionConverters.asJava(items);
  }

  /** Returns expressions that have a narrower type, or a trait of expressions, which Java does not take for one. */
  @SuppressWarnings("unchecked")
  static Seq<Expression> expressions(Seq<?> items) {
    return (Seq<Expression>) items;
  }
}
