package streamling.plan;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;

/** Finds out how many rows plans have; from Python, each step through a plan would be a round trip. */
public final class Plans {
  private Plans() {}

  /** Returns whether {@code made} has one row for each row of {@code taken}: all that its plan does is compute columns. */
  public static boolean keepsRows(Dataset<Row> taken, Dataset<Row> made) {
    LogicalPlan below = taken.queryExecution().analyzed();
    LogicalPlan plan = made.queryExecution().analyzed();
    while (!plan.fastEquals(below)) {
      if (!keepsRows(plan)) {
        return false;
      }
      plan = Seqs.list(plan.children()).get(0);
    }
    return true;
  }

  private static boolean keepsRows(LogicalPlan operator) {
    return operator instanceof Project
        || operator instanceof RepartitionByExpression
        || operator instanceof SubqueryAlias
        || operator instanceof View;
  }

  /** Returns the number of rows of the last shuffle of a plan that has run; 0 if it was skipped for lack of rows. */
  public static long shuffledRows(QueryExecution execution) {
    SparkPlan plan = execution.executedPlan();
    while (!(plan instanceof ShuffleExchangeExec)) {
      if (plan instanceof AdaptiveSparkPlanExec adaptive) {
        plan = adaptive.executedPlan();
      } else if (plan instanceof QueryStageExec stage) {
        plan = stage.plan();
      } else if (Seqs.list(plan.children()).isEmpty()) {
        return 0;
      } else {
        plan = Seqs.list(plan.collectLeaves()).get(0);
      }
    }
    return plan.longMetric("shuffleRecordsWritten").value();
  }
}
