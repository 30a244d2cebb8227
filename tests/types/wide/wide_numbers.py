"""Numbers at the limits of every width, and around them."""

from __future__ import annotations

import random

import pyarrow as pa

from streamling.types.wide.layout import I256, U256, Layout, WideDecimal, layout_of

_EDGES = (0, 2**63, 2**64, 2**127, 2**128, 2**255, 2**256, 10**38, 10**76, 10**100)

DECIMALS = (
    pa.decimal256(39, 0),
    pa.decimal256(76, 10),
    WideDecimal(77, 1),
    WideDecimal(100, 20),
    WideDecimal(1000, 999),
)
TYPES = (U256, I256, *DECIMALS)


def held(type_: pa.DataType) -> Layout:
    layout = layout_of(type_)
    assert layout is not None
    return layout


def edges(type_: pa.DataType) -> list[int]:
    """Return every limit, one before and one past it, on both sides of zero, as far as the type has them."""
    layout = held(type_)
    near = {sign * (edge + step) for edge in _EDGES for sign in (1, -1) for step in (-1, 0, 1)}
    return sorted(n for n in near | {layout.low, layout.high} if layout.low <= n <= layout.high)


def some(type_: pa.DataType, count: int, chance: random.Random) -> list[int]:
    """Return numbers of all sizes, including the limits."""
    layout, known = held(type_), edges(type_)
    numbers = []
    for _ in range(count):
        bits = chance.randrange(layout.high.bit_length() + 1)
        number = chance.choice((1, -1)) * chance.getrandbits(bits or 1)
        numbers.append(
            number if layout.low <= number <= layout.high and chance.random() < 0.8 else chance.choice(known)
        )
    return numbers
