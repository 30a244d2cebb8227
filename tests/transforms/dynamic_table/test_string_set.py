"""Sets of texts for look-ups in Spark, compared with Python's own."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from streamling.transforms.dynamic_table.string_set import StringSet

pytestmark = pytest.mark.spark

ALPHABETS = ["ab", "0123456789abcdef", "aäß", "日本語", "😀a", "\x00\x7f"]


def texts(chance: random.Random, count: int) -> set[str]:
    """Return many texts with equal beginnings or ends, of every length up to some blocks of the hash."""
    return {"".join(chance.choices(chance.choice(ALPHABETS), k=chance.randrange(90))) for _ in range(count)}


def asked(spark, table: StringSet, values: Iterable[str | None]) -> list[bool | None]:
    from pyspark.sql import functions as f

    frame = spark.createDataFrame([(value,) for value in values], "v string")
    return frame.select(table.lookup_expression()(f.col("v")).alias("found")).toArrow().column("found").to_pylist()


def test_exactly_the_added_texts_are_found(spark):
    chance = random.Random(5)
    table, held = StringSet(spark), set()
    for count in (1, 3, 2000, 40, 40, 500, 1, 1):
        added = texts(chance, count)
        table.add(added)
        held |= added
    others = texts(chance, 3000) | {text[:-1] for text in held} | {text + "a" for text in held}
    values = [None, "", *held, *others]
    expected = [None if value is None else value in held for value in values]
    assert asked(spark, table, values) == expected
    assert "" in held, "the shortest is among them"


def test_later_additions_are_not_in_an_earlier_expression(spark):
    from pyspark.sql import functions as f

    table = StringSet(spark)
    nothing = table.lookup_expression()
    table.add(["a"])
    one = table.lookup_expression()
    table.add(["b", "c", "d", "e"])
    columns = [
        lookup_expression(f.col("v")).alias(name)
        for lookup_expression, name in [(nothing, "0"), (one, "1"), (table.lookup_expression(), "5")]
    ]
    rows = spark.createDataFrame([("a",), ("b",), (None,)], "v string").select(*columns).collect()
    assert [tuple(row) for row in rows] == [(False, True, True), (False, False, True), (None, None, None)]


def test_many_small_additions_do_not_make_many_parts(spark):
    table = StringSet(spark)
    for number in range(60):
        table.add([str(number)])
    assert asked(spark, table, ["0", "37", "59", "60"]) == [True, True, True, False]
    assert len(table.subsets) <= 4


def test_a_set_larger_than_its_heap_share_is_not_held(spark):
    room = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() // 16
    table = StringSet(spark)
    table.add(["x"])
    assert not table.full
    table.add([f"{number}" + "x" * (room // 8) for number in range(9)])
    assert table.full


def test_the_empty_text_is_not_found_between_two_others(spark):
    from pyspark.sql import functions as f

    tables = [StringSet(spark) for _ in range(30)]
    for size, table in enumerate(tables, 1):
        table.add([str(number) for number in range(size)])
    found = [table.lookup_expression()(f.lit("")).alias(str(size)) for size, table in enumerate(tables, 1)]
    assert set(spark.range(1).select(*found).first()) == {False}
