package streamling;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.FilterExec;

/** Passes on the rows that match a condition. */
final class FilterStage extends Stage {
  private final BasePredicate condition;
  private final Stage next;

  FilterStage(FilterExec plan, Stage next) {
    this.next = next;
    condition = Predicate$.MODULE$.create(plan.condition(), plan.child().output());
    condition.initialize(0);
  }

  void take(InternalRow row) {
    if (condition.eval(row)) {
      next.take(row);
    }
  }
}
