package streamling;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;

/**
 * Uses a plan that was made once, over a {@link #template}, for the rows of each batch. Structured Streaming does the
 * same with its sources: to analyse the decoding of hundreds of columns takes longer than to read a batch.
 */
public final class BatchPlan extends AbstractPartialFunction {
  private final LogicalPlan input;
  private final Columns columns;

  private BatchPlan(LogicalPlan input, Columns columns) {
    this.input = input;
    this.columns = columns;
  }

  /** A frame over which such a plan is made: these columns, no rows, and nothing that Spark optimizes away. */
  public static Dataset template(SparkSession session, StructType columns) {
    ClassTag rows = ClassTag$.MODULE$.apply(InternalRow.class);
    return session.internalCreateDataFrame(session.sparkContext().emptyRDD(rows), columns, false);
  }

  /** Whether the plan of {@code frame} may be used again: others contain the seed of their random numbers. */
  public static boolean isReusable(Dataset frame) {
    return frame.queryExecution().analyzed().deterministic();
  }

  /** The plan of {@code frame}, which has one template, over {@code rows}, which has the columns of this template. */
  public static Dataset over(Dataset frame, Dataset rows) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    LogicalPlan input = rows.queryExecution().analyzed();
    Columns columns = new Columns(((LogicalPlan) plan.collectLeaves().head()).output(), input.output());
    plan = (LogicalPlan) plan.transformUp(new BatchPlan(input, columns));
    plan.setAnalyzed(); // everything is resolved
    return Dataset.ofRows((SparkSession) frame.sparkSession(), plan);
  }

  public boolean isDefinedAt(Object plan) {
    return true;
  }

  public Object applyOrElse(Object plan, Function1 otherwise) {
    return plan instanceof LogicalRDD ? input : ((LogicalPlan) plan).transformExpressions(columns);
  }

  /** Replaces the columns of the template. */
  private static final class Columns extends AbstractPartialFunction {
    private final Map replacements = new HashMap();

    Columns(Seq template, Seq input) {
      for (int number = 0; number < template.size(); number++) {
        replacements.put(((Attribute) template.apply(number)).exprId(), input.apply(number));
      }
    }

    public boolean isDefinedAt(Object expression) {
      return expression instanceof AttributeReference
          && replacements.containsKey(((AttributeReference) expression).exprId());
    }

    public Object applyOrElse(Object expression, Function1 otherwise) {
      return isDefinedAt(expression)
          ? replacements.get(((AttributeReference) expression).exprId())
          : otherwise.apply(expression);
    }
  }
}
