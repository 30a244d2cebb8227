package streamling.plan;

import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.reflect.ClassTag;

/** A hash table of texts in a broadcast array; {@code string_set.py} describes the layout. */
public final class TextTable {
  /** Bytes that no text contains. */
  private static final Column BEGIN = mark(0xff);
  private static final Column END = mark(0xfe);

  private final Expression array;
  private final long mask;

  /** {@code content} is an array of texts in Spark's layout, {@code mask} the bits of a hash that select the element. */
  public TextTable(SparkContext context, byte[] content, long mask) {
    var texts = new UnsafeArrayData();
    texts.pointTo(content, Platform.BYTE_ARRAY_OFFSET, content.length);
    var broadcast = context.broadcast(texts, ClassTag.<UnsafeArrayData>apply(UnsafeArrayData.class));
    Expression object = Literal.create(broadcast, new ObjectType(Broadcast.class));
    array = call(object, "value", new ObjectType(UnsafeArrayData.class));
    this.mask = mask;
  }

  /** Returns whether {@code value} is in the table, as an expression; null for null. */
  public Column contains(Column value) {
    Column slot = functions.xxhash64(value).bitwiseAND(mask).cast("int");
    Expression element = call(array, "getUTF8String", DataTypes.StringType, ExpressionUtils.expression(slot));
    return functions.contains(ExpressionUtils.column(element), functions.concat(BEGIN, value, END));
  }

  /** A call in the code that Spark generates. Deterministic, so that the optimizer may move it. */
  private static Expression call(Expression target, String method, DataType result, Expression... arguments) {
    return new Invoke(target, method, result, Seqs.of(arguments), Seqs.of(), true, false, true);
  }

  private static Column mark(int content) {
    UTF8String text = UTF8String.fromBytes(new byte[] {(byte) content});
    return ExpressionUtils.column(Literal.create(text, DataTypes.StringType));
  }
}
