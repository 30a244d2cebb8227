package streamling.plan;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StructType;
import scala.reflect.ClassTag;

/**
 * Uses a plan that was made once, over a {@link #template}, for the rows of each batch. Structured Streaming does the
 * same with its sources: analysing the decoding of hundreds of columns takes longer than reading a batch.
 */
public final class BatchPlan {
  private BatchPlan() {}

  /** Returns a frame over which such a plan is made: these columns, no rows, and nothing that Spark optimizes away. */
  public static Dataset<Row> template(SparkSession session, StructType columns) {
    ClassTag<InternalRow> rows = ClassTag.apply(InternalRow.class);
    return session.internalCreateDataFrame(session.sparkContext().emptyRDD(rows), columns, false);
  }

  /** Returns whether the plan of {@code frame} may be used again: others contain the seed of their random numbers. */
  public static boolean isReusable(Dataset<Row> frame) {
    return frame.queryExecution().analyzed().deterministic();
  }

  /** Returns the plan of {@code frame}, which has one template, over {@code rows} with the columns of this template. */
  public static Dataset<Row> over(Dataset<Row> frame, Dataset<Row> rows) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    LogicalPlan input = rows.queryExecution().analyzed();
    Rewrite<Expression> columns = replaceColumns(Seqs.list(plan.collectLeaves()).get(0), input);
    LogicalPlan replaced =
        plan.transformUp(
            new Rewrite<>(
                node -> node instanceof LogicalRDD ? input : (LogicalPlan) node.transformExpressions(columns)));
    replaced.setAnalyzed(); // everything is resolved
    return Dataset.ofRows(frame.sparkSession(), replaced);
  }

  /** Returns the plan of {@code frame} over the rows of {@code lower}, from which it was made. */
  public static Dataset<Row> without(Dataset<Row> frame, Dataset<Row> lower) {
    LogicalPlan removed = lower.queryExecution().analyzed();
    LogicalPlan template = template(frame.sparkSession(), lower.schema()).queryExecution().analyzed();
    boolean[] isFound = {false};
    LogicalPlan rest =
        frame.queryExecution().analyzed().transformDown(
            new Rewrite<>(
                node -> {
                  if (!node.fastEquals(removed)) {
                    return node;
                  }
                  isFound[0] = true;
                  return template;
                }));
    if (!isFound[0]) {
      throw new IllegalArgumentException("the plan does not contain the other one");
    }
    Rewrite<Expression> columns = replaceColumns(removed, template);
    LogicalPlan renamed = rest.transformUp(new Rewrite<>(node -> (LogicalPlan) node.transformExpressions(columns)));
    renamed.setAnalyzed();
    return Dataset.ofRows(frame.sparkSession(), renamed);
  }

  private static Rewrite<Expression> replaceColumns(LogicalPlan template, LogicalPlan input) {
    Map<ExprId, Expression> replacements = new HashMap<>();
    var columns = Seqs.list(input.output()).iterator();
    Seqs.list(template.output()).forEach(column -> replacements.put(column.exprId(), columns.next()));
    return new Rewrite<>(
        node -> node instanceof AttributeReference column ? replacements.getOrDefault(column.exprId(), column) : node);
  }
}
