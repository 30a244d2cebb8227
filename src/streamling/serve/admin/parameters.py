"""Parameters of requests."""

from __future__ import annotations

from streamling.errors import StreamlingError


def positive_number(text: str | None, name: str, most: float) -> float | None:
    """Return the value of the parameter that errors call ``name``; None if it is missing."""
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise StreamlingError.user(f"{name} is '{text}', which is not between 0 and {most:g}")
    return number
