package streamling;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.GenerateExec;
import scala.collection.Iterator;

/** Passes on one row for each item of a list or map, as {@code unnest} does. */
final class GenerateStage extends Stage {
  private final Generator generator;
  private final UnsafeProjection kept;
  private final UnsafeProjection joined;
  private final InternalRow nulls;
  private final boolean isOuter;
  private final Stage next;

  GenerateStage(GenerateExec plan, Stage next) {
    this.next = next;
    generator = plan.boundGenerator();
    kept = UnsafeProjection.create(plan.requiredChildOutput(), plan.child().output());
    joined = UnsafeProjection.create(plan.output(), plan.output());
    nulls = new GenericInternalRow(generator.elementSchema().length());
    isOuter = plan.outer();
  }

  void take(InternalRow row) {
    InternalRow left = kept.apply(row);
    Iterator items = generator.eval(row).iterator();
    if (!items.hasNext() && isOuter) {
      pass(left, nulls);
    }
    while (items.hasNext()) {
      pass(left, (InternalRow) items.next());
    }
  }

  private void pass(InternalRow left, InternalRow item) {
    next.take(joined.apply(new JoinedRow(left, item)));
  }
}
