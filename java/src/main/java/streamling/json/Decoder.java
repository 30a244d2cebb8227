package streamling.json;

import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import streamling.plan.Calls;

/**
 * Makes rows of messages. Spark's generated code calls the method {@code decode} with what a message contains, and gets
 * a Spark row, without any conversion: a Java UDF would convert each value to another object and back. A row begins with
 * the kind of problem, null if there is none, and its detail; the columns follow.
 */
interface Decoder extends Serializable {
  /** Fields of a row before its columns. */
  int HEAD = 2;

  /** Returns the decoded {@code content} as a struct of {@code rowType}, which is JSON. */
  default Column over(Column content, String rowType) {
    Expression argument = ExpressionUtils.expression(content);
    return ExpressionUtils.column(Calls.call(this, "decode", DataType.fromJson(rowType), argument));
  }
}
