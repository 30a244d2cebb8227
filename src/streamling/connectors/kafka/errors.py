"""What Spark says when its Kafka source or sink fails."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """All that an exception and its causes say, the Java stack included."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        texts.append(str(seen))
        texts.append(str(getattr(seen, "_stackTrace", None) or ""))
        seen = seen.__cause__
    return "\n".join(texts)
