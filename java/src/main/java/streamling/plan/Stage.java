package streamling.plan;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.GenerateExec;
import org.apache.spark.sql.execution.ProjectExec;

/** An operator of a {@link LocalPlan}. A row that it passes on is only valid during the call. */
@FunctionalInterface
public interface Stage {
  void take(InternalRow row);

  /** Computes columns. */
  static Stage project(ProjectExec plan, Stage next) {
    UnsafeProjection projection = UnsafeProjection.create(Seqs.expressions(plan.projectList()), plan.child().output());
    projection.initialize(0);
    return row -> next.take(projection.apply(row));
  }

  /** Passes on the rows that match a condition. */
  static Stage filter(FilterExec plan, Stage next) {
    BasePredicate condition = Predicate.create(plan.condition(), plan.child().output());
    condition.initialize(0);
    return row -> {
      if (condition.eval(row)) {
        next.take(row);
      }
    };
  }

  /** Passes on one row for each item of a list or map, as {@code unnest} does. */
  static Stage generate(GenerateExec plan, Stage next) {
    Generator generator = plan.boundGenerator();
    UnsafeProjection kept = UnsafeProjection.create(Seqs.expressions(plan.requiredChildOutput()), plan.child().output());
    UnsafeProjection joined = UnsafeProjection.create(Seqs.expressions(plan.output()), plan.output());
    InternalRow nulls = new GenericInternalRow(generator.elementSchema().length());
    boolean isOuter = plan.outer();
    return row -> {
      InternalRow left = kept.apply(row);
      var items = generator.eval(row).iterator();
      if (!items.hasNext() && isOuter) {
        next.take(joined.apply(new JoinedRow(left, nulls)));
      }
      while (items.hasNext()) {
        next.take(joined.apply(new JoinedRow(left, items.next())));
      }
    };
  }
}
