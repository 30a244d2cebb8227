package streamling;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.ProjectExec;

/** Computes columns. */
final class ProjectStage extends Stage {
  private final UnsafeProjection projection;
  private final Stage next;

  ProjectStage(ProjectExec plan, Stage next) {
    this.next = next;
    projection = UnsafeProjection.create(plan.projectList(), plan.child().output());
    projection.initialize(0);
  }

  void take(InternalRow row) {
    next.take(projection.apply(row));
  }
}
