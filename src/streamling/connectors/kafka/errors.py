"""The text of Spark's errors when its Kafka source or sink fails."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Return the text of an exception and its causes, including the Java stack."""
    texts: list[str] = []
    seen: BaseException | None = error
    while seen is not None:
        texts.append(str(seen))
        texts.append(str(getattr(seen, "_stackTrace", None) or ""))
        seen = seen.__cause__
    return "\n".join(texts)
