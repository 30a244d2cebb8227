package streamling.plan;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;

/** Calls of Java methods inside Spark's plans. */
public final class Calls {
  private Calls() {}

  /**
   * Returns a call of {@code target} in the code that Spark generates, without any conversion of the arguments; null if
   * an argument is null. Not deterministic: otherwise the optimizer would replace the call by its result, or copy it
   * into the filters above it.
   */
  public static Expression call(Serializable target, String method, DataType result, Expression... arguments) {
    Literal object = Literal.create(target, new ObjectType(target.getClass()));
    return new Invoke(object, method, result, Seqs.of(arguments), Seqs.of(), true, false, false);
  }
}
