"""Java classes in Spark's JVM: Spark's own, and ours (``java/``)."""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """Return the class with this full name. With ``jvm.org.apache…``, each part of the name costs a round trip."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, jvm._gateway_client)
