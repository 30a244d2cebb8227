package streamling;

import org.apache.spark.sql.catalyst.InternalRow;

/** Counts rows. */
final class CountStage extends Stage {
  final String name;
  long rows;
  private final Stage next;

  CountStage(String name, Stage next) {
    this.name = name;
    this.next = next;
  }

  void take(InternalRow row) {
    rows++;
    next.take(row);
  }
}
