package streamling.plan;

import java.util.function.UnaryOperator;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A rule that Spark applies to the nodes of a tree. Nodes that it returns unchanged stay. */
final class Rewrite<T> extends AbstractPartialFunction<T, T> {
  private final UnaryOperator<T> rule;

  Rewrite(UnaryOperator<T> rule) {
    this.rule = rule;
  }

  @Override
  public boolean isDefinedAt(T node) {
    return true;
  }

  @Override
  @SuppressWarnings("unchecked") // B is a supertype of T, which Java cannot express
  public <A extends T, B> B applyOrElse(A node, Function1<A, B> otherwise) {
    return (B) rule.apply(node);
  }
}
