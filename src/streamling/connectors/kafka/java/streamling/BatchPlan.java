package streamling;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.Function1;
import scala.None$;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/**
 * Uses a plan that was made once, over a {@link LocalPlan#template}, for the messages of a batch. Structured Streaming
 * does the same with its sources: to analyse the decoding of hundreds of columns takes longer than to read a batch.
 */
public final class BatchPlan extends AbstractPartialFunction {
  private final LogicalPlan input;

  private BatchPlan(LogicalPlan input) {
    this.input = input;
  }

  /** The plan of {@code template} over {@code messages}, which has the same columns. */
  public static Dataset over(Dataset template, Dataset messages) {
    BatchPlan replacement = new BatchPlan(messages.queryExecution().analyzed());
    LogicalPlan plan = (LogicalPlan) template.queryExecution().analyzed().transformUp(replacement);
    plan.setAnalyzed(); // everything is resolved
    return Dataset.ofRows((SparkSession) template.sparkSession(), plan);
  }

  public boolean isDefinedAt(Object plan) {
    return plan instanceof LogicalRDD;
  }

  public Object applyOrElse(Object plan, Function1 otherwise) {
    if (!isDefinedAt(plan)) {
      return otherwise.apply(plan);
    }
    Seq wanted = ((LogicalRDD) plan).output();
    ListBuffer columns = new ListBuffer();
    for (int number = 0; number < wanted.size(); number++) {
      columns.append(renamed((Attribute) input.output().apply(number), (Attribute) wanted.apply(number)));
    }
    return new Project(columns.toList(), input);
  }

  /** The column of the batch under the identity by which the plan refers to it. */
  private static Alias renamed(Attribute column, Attribute wanted) {
    Seq none = (Seq) (Object) Nil$.MODULE$;
    return new Alias(column, wanted.name(), wanted.exprId(), none, (scala.Option) (Object) None$.MODULE$, none);
  }
}
