"""Wide numbers in Spark: the expressions of the JVM, and the kernels in its workers."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.kernels.registration import register
from streamling.sql.library.wide_numbers import ADD, DIVIDE, TEXT, call, checked, failure
from streamling.types.wide.layout import I256, U256, WideDecimal, from_integers
from streamling.types.wide.spark_sql import (
    from_long,
    from_twos_complement,
    literal,
    needed_bytes,
    to_bytes,
    to_long,
    to_twos_complement,
)
from tests.types.wide.wide_numbers import edges, held, some

pytestmark = pytest.mark.spark

TYPES = (U256, I256, pa.decimal256(76, 10), WideDecimal(100, 20))
LONGS = [0, 1, -1, 127, 128, 255, 256, 2**31, -(2**31), 2**63 - 1, -(2**63)]


def shortest(number: int) -> bytes:
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def expressions_of(type_: pa.DataType) -> dict[str, str]:
    """Spark SQL over ``h`` (held), ``t`` (two's complement), ``p`` (the same, longer) and ``l`` (a BIGINT), by name."""
    layout = held(type_)
    made = {
        "twos": to_twos_complement("h", layout),
        "fixed": to_twos_complement("h", layout, needed_bytes(layout) + 3),
        "held": from_twos_complement("t", layout, "X''"),
        "held_of_padded": from_twos_complement("p", layout, "X''"),
        "bytes": to_bytes("h", layout),
        "less": f"h < {literal(5, layout)}",
    }
    if not layout.scale:
        made |= {"long": to_long("h", layout, "NULL"), "of_long": from_long("l", layout, "X''")}
    return made


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_bytes_of_avro_and_longs_round_trip(spark: Any, type_: pa.DataType) -> None:
    layout = held(type_)
    numbers = [*edges(type_), *some(type_, 50, random.Random(7))]
    size = needed_bytes(layout) + 3
    table = pa.table(
        {
            "h": from_integers(numbers, layout),
            "t": [shortest(n) for n in numbers],
            "p": [n.to_bytes(size, "big", signed=True) for n in numbers],
            "l": pa.array([LONGS[i % len(LONGS)] for i in range(len(numbers))], pa.int64()),
        }
    )
    made = expressions_of(type_)
    rows = spark.createDataFrame(table).selectExpr(*[f"{sql} AS {name}" for name, sql in made.items()]).toArrow()
    for number, long, row in zip(numbers, table["l"].to_pylist(), rows.to_pylist(), strict=True):
        assert row["twos"] == shortest(number)
        assert row["fixed"] == number.to_bytes(size, "big", signed=True)
        assert row["held"] == row["held_of_padded"] == layout.encode(number)
        assert row["bytes"] == number.to_bytes(layout.width, "big", signed=layout.low < 0)
        assert row["less"] == (number < 5)
        if not layout.scale:
            assert row["long"] == (number if -(2**63) <= number < 2**63 else None)
            assert row["of_long"] == (layout.encode(long) if long >= layout.low else b"")


def test_values_that_do_not_fit_are_distinguished(spark: Any) -> None:
    too_large = [(-1, U256), (2**256, U256), (2**255, I256), (-(2**255) - 1, I256)]
    expressions = [
        from_twos_complement(f"X'{shortest(number).hex()}'", held(type_), "X'00'") for number, type_ in too_large
    ]
    nothing = [from_twos_complement("CAST(NULL AS BINARY)", held(type_), "X'00'") for type_ in (U256, I256)]
    row = spark.range(1).selectExpr(*expressions, *nothing).first()
    assert list(row) == [b"\0"] * len(too_large) + [None, None]


def test_kernels_run_in_workers_and_only_needed_rows_can_fail(spark: Any) -> None:
    layout = held(U256)
    table = pa.table({"a": from_integers([1, 6, None], layout), "b": from_integers([0, 2, 3], layout)})
    numbers = spark.createDataFrame(table)
    divided = call(DIVIDE, "a", "b", types=[U256] * 3)
    quotient = checked(divided, layout, f"raise_error({failure(divided)})")
    chained = call(ADD, call(ADD, "a", "b", types=[U256] * 3), "b", types=[U256] * 3)
    text = call(TEXT, checked(chained, layout, "NULL"), types=[U256])
    register(spark, [quotient, text])
    zero = literal(0, layout)
    frame = numbers.selectExpr(f"IF(b = {zero}, NULL, {quotient}) AS q", f"{text} AS t")
    assert [(q and layout.decode(q), t) for q, t in frame.collect()] == [(None, "1"), (3, "10"), (None, None)]
    with pytest.raises(Exception, match="division by zero"):
        numbers.selectExpr(quotient).collect()
