package streamling;

import org.apache.spark.sql.catalyst.InternalRow;

/** An operator of a {@link LocalPlan}. A row that it passes on is only valid during the call. */
abstract class Stage {
  abstract void take(InternalRow row);
}
