"""Times, dates and decimals from numbers of all magnitudes: DataFusion's result, or an error that names the value."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import datafusion as oracle
import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.sql.catalog import SCALARS
from streamling.sql.errors import translate_sql_error
from streamling.sql.frames import SparkStatement, prepare
from streamling.sql.plan import Column
from streamling.sql.statement import Statement

pytestmark = pytest.mark.spark

_FRACTIONS = [0.0, -0.0, 0.1, -0.1, 1.2345678, -1.2345678, 5e-324, 5e-7, 1.5e-6, 1700000000.123456789, -0.9999999]
_LARGE = [2.5e9, 9.1e9, -9.1e9, 1700000000123.0, -1e12, 9223372036854.0, 1e15, 1e18, 9.3e18, 1e300, -1e300]
DOUBLES = [None, *_FRACTIONS, *_LARGE, float("nan"), float("inf"), float("-inf")]
INTS = [None, 0, 1, -1, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
DECIMALS = [
    None,
    *map(Decimal, ("0", "1.2345678", "-0.0000005", "1.99999999999", "-1.99999999999", "8999999999.999999999")),
    *map(Decimal, ("99999999999999999999.12345678901", "-99999999999999999999")),
]
COLUMNS = {
    "double": pa.array(DOUBLES, pa.float64()),
    "single": pa.array([None if x is None or 1e39 < abs(x) < 1e301 else x for x in DOUBLES], pa.float32()),
    "int": pa.array(INTS, pa.int64()),
    "small": pa.array([None, 0, -1, 2**31 - 1, -(2**31)], pa.int32()),
    "unsigned": pa.array([None, 0, 2**63, 2**64 - 1], pa.uint64()),
    "decimal": pa.array(DECIMALS, pa.decimal128(38, 11)),
}
CALLS = [
    "to_timestamp({})",
    "to_timestamp_seconds({})",
    "to_timestamp_millis({})",
    "to_timestamp_micros({})",
    "to_timestamp_nanos({})",
    "from_unixtime({})",
    "to_unixtime({})",
    "to_date({})",
    "CAST({} AS DECIMAL(20, 4))",
    "CAST({} AS DECIMAL(38, 18))",
    "TRY_CAST({} AS DECIMAL(20, 4))",
]
#: DataFusion's nanoseconds end in 2262, where doubles stay; a timestamp here has microseconds and ends in 294247
_NANOSECONDS = 2**63 // 1000


def micros(value: Any) -> Any:
    """A time in microseconds, truncated towards 1970; other values as they are."""
    if pa.types.is_time(value.type) or pa.types.is_duration(value.type):
        return value.cast(pa.int64()).as_py()
    if not pa.types.is_timestamp(value.type):
        return value.cast(pa.int32()).as_py() if pa.types.is_date(value.type) else value.as_py()
    number, unit = value.cast(pa.int64()).as_py(), value.type.unit
    if number is None or unit == "us":
        return number
    return number * {"s": 1_000_000, "ms": 1000}[unit] if unit != "ns" else int(Decimal(number) / 1000)


def wanted(column: pa.Array, call: str) -> list[Any]:
    """DataFusion's values; its errors are exceptions."""
    found: list[Any] = []
    for value in column:
        context = oracle.SessionContext()
        context.from_arrow(pa.table({"x": pa.array([value.as_py()], column.type)}), "t")
        try:
            found.append(micros(context.sql(f"SELECT {call.format('x')} AS v FROM t").to_arrow_table()["v"][0]))
        except Exception as error:
            found.append(error)
    return found


def ours(spark: Any, column: pa.Array, call: str) -> list[Any]:
    from streamling.engine.dataflow.arrow_frames import to_frame
    from streamling.spark.local_frames import to_arrow

    statement = SparkStatement("node", Statement(f"SELECT {call.format('x')} AS v FROM t"))
    found: list[Any] = []
    for value in column:
        frame = to_frame(spark, [pa.record_batch({"x": pa.array([value.as_py()], column.type)})])
        try:
            found.append(micros(to_arrow(statement.apply(spark, {"t": frame}))["v"][0]))
        except Exception as error:
            found.append(statement.translate_error(error) or error)
    return found


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "16KB")
    return session


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_number_is_what_it_is_in_datafusion_or_an_error_that_names_it(session, name, call):
    column = COLUMNS[name]
    expected = wanted(column, call)
    for value, there, here in zip(column.to_pylist(), expected, ours(session, column, call), strict=True):
        if isinstance(here, Exception):
            assert isinstance(here, StreamlingError), (value, here)
            assert not here.internal
            text = str(here)
            assert ("does not fit into" in text) or ("since 1970 are not a" in text and call.split("(")[0] in text), (
                text
            )
            # DataFusion's error too, or a time that only other units have
            assert isinstance(there, Exception) or call.startswith(("to_timestamp", "from_unixtime")), (value, there)
        elif isinstance(there, Exception):
            assert "unixtime" in call or here is not None, (value, here)  # which take only integers there
        elif call == "to_timestamp({})" and there is not None and abs(there) >= _NANOSECONDS - 1:
            assert here == pytest.approx(value * 1e6), (value, there, here)
        elif isinstance(there, Decimal) and name in ("double", "single"):
            assert float(here) == pytest.approx(float(there), rel=1e-15, abs=1e-4), (value, there, here)
        else:
            assert here == there, (value, there, here)


#: all other functions that make a time, an interval or a decimal of a number; each argument in turn
OTHER_CALLS = [
    *("make_date({}, 1, 1)", "make_date(2024, {}, 1)", "make_date(2024, 1, {})"),
    *(
        "make_timestamp({}, 1, 1, 1, 1, 1)",
        "make_timestamp(2024, {}, 1, 1, 1, 1)",
        "make_timestamp(2024, 1, 1, {}, 1, 1)",
    ),
    *("make_timestamp(2024, 1, 1, 1, 1, {})", "make_timestamp_ltz(2024, 1, 1, 1, 1, {})"),
    *("make_timestamp_ntz(2024, 1, 1, 1, 1, {})", "try_make_timestamp(2024, 1, 1, 1, 1, {})"),
    *("try_make_timestamp({}, 1, 1, 1, 1, 1)", "try_make_timestamp_ltz(2024, 1, 1, 1, 1, {})"),
    "try_make_timestamp_ntz(2024, 1, 1, 1, 1, {})",
    *("make_time({}, 1, 1)", "make_time(1, {}, 1)", "make_time(1, 1, {})"),
    *(f"to_timestamp(0) + make_interval({'0, ' * place}{{}})" for place in range(7)),
    *(f"to_timestamp(0) + try_make_interval({'0, ' * place}{{}})" for place in (0, 6)),
    *(f"to_timestamp(0) + make_dt_interval({'0, ' * place}{{}})" for place in range(4)),
    *("to_timestamp(0) + make_ym_interval({})", "to_timestamp(0) + make_ym_interval(0, {})"),
    *("to_timestamp(0) + {} * INTERVAL '1' DAY", "to_timestamp(0) + {} * INTERVAL '1' MONTH"),
    *("timestamp_seconds({})", "timestamp_millis(CAST({} AS BIGINT))", "timestamp_micros(CAST({} AS BIGINT))"),
    *("timestamp({})", "date_from_unix_date({})", "date_add(DATE '2024-01-01', CAST({} AS INT))"),
    "date_sub(DATE '2024-01-01', CAST({} AS INT))",
    *("dateadd(DATE '2024-01-01', CAST({} AS INT))", "add_months(DATE '2024-01-01', {})"),
    *("time_from_seconds({})", "time_from_millis(CAST({} AS BIGINT))", "time_from_micros(CAST({} AS BIGINT))"),
    *("to_timestamp_ltz({})", "to_timestamp_ntz({})", "try_to_timestamp({})", "try_to_date({})"),
    *("to_number({}, '999.99')", "try_to_number({}, '999.99')", "decimal({})", "CAST({} AS DECIMAL(38, 0))"),
    *("from_utc_timestamp(to_timestamp({}), 'Asia/Tokyo')", "to_utc_timestamp(to_timestamp({}), 'Asia/Tokyo')"),
    *("date_trunc('year', to_timestamp({}))", "last_day(to_date({}))"),
]
#: functions of which every call with a DOUBLE is refused before the pipeline starts
REFUSED = ["timestamp_millis", "timestamp_micros", "time_from_millis", "time_from_micros", "to_time", "try_to_time"]


@pytest.mark.parametrize("call", OTHER_CALLS)
def test_no_double_ends_a_run_with_a_message_of_java(session, call):
    values = [None, 0.0, -0.0, 5e-324, 1.2345678, -1.2345678, 59.9999999, 60.0, 2.0**31, 1e15, 2.0**63, 1e300, -1e300]
    values += [float("nan"), float("inf"), float("-inf")]
    for value, here in zip(values, ours(session, pa.array(values, pa.float64()), call), strict=True):
        if isinstance(here, Exception):
            assert isinstance(here, StreamlingError), (value, here)
            assert not here.internal, (value, here)
            assert not re.search(r"java|Exception|SQLSTATE|spark\.|\([A-Z_.]{8,}\)", str(here)), (value, here)


@pytest.mark.parametrize("function", REFUSED)
def test_a_function_that_takes_no_double_is_refused_before_the_start(session, function):
    statement = Statement(f"SELECT {function}(x) AS v FROM t")
    frame = session.createDataFrame([(1.5,)], "x double")
    with pytest.raises(Exception) as raised:
        _ = SparkStatement("node", statement).apply(session, {"t": frame}).schema
    error = translate_sql_error(raised.value, "node", statement)
    assert not error.internal
    assert re.search("expected|there is no cast from DOUBLE", str(error)), error
    assert "java" not in str(error).lower()


def test_every_function_that_makes_a_time_of_a_number_is_tested():
    makes_time = re.compile(
        r"(try_)?(make_(date|time|interval|dt_|ym_)|to_(number|date|time)|time(stamp)?_from|timestamp|date_from)"
    )
    other = {"time_bucket", "timestampadd", "timestampdiff", "timestamp_ltz", "timestamp_ntz"}  # no numbers
    named = set(re.findall(r"\w+(?=\()", " ".join([*CALLS, *OTHER_CALLS]))) | set(REFUSED)
    assert {name for name in SCALARS if makes_time.match(name)} - other - named == set()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("to_timestamp(1e300)", "to_timestamp(): 1.0E300 seconds since 1970 are not a time"),
        ("to_timestamp(double('NaN'))", "to_timestamp(): NaN seconds"),
        ("to_timestamp_millis(9223372036854775807)", "to_timestamp_millis(): 9223372036854775807 milliseconds"),
        ("to_date(2147483648)", "to_date(): 2147483648 days since 1970 are not a date"),
        ("CAST(x / 1e-300 AS DECIMAL(20, 4))", "E299 does not fit into DECIMAL(20, 4)"),
        ("timestamp_seconds(CAST(x AS DECIMAL(20, 8)) / 3)", "has too many digits"),
    ],
)
def test_an_error_says_what_and_why(session, expression, message):
    column = pa.array([1.0])
    [error] = ours(session, column, expression)
    assert isinstance(error, StreamlingError)
    assert message in str(error)
    assert "java" not in str(error)


@pytest.mark.parametrize("value", ["2147483646.99999999999", "-2147483647.99999999999", "-0.99999999999", "7.5"])
def test_a_decimal_that_becomes_an_integer_loses_its_fraction(spark: Any, value: str) -> None:
    """As a double, the first two would be the next integer."""
    table = pa.table({"d": pa.array([Decimal(value)], pa.decimal128(38, 11)), "i": pa.array([-1], pa.int32())})
    context = oracle.SessionContext()
    context.from_arrow(table, "t")
    sql = "SELECT CAST(d AS INT) AS a, TRY_CAST(d AS INT) AS b, i & d AS c, TRY_CAST(d AS SMALLINT) AS e FROM t"
    compiled = Statement(sql).compile({"t": [Column("d", table["d"].type), Column("i", pa.int32())]})
    frame = spark.createDataFrame([(Decimal(value), -1)], "d decimal(38, 11), i int")
    expected = context.sql(sql).to_pydict()
    assert prepare(spark, compiled.plan).run({"t": frame}).toArrow().to_pydict() == expected
    assert expected["a"] == [int(Decimal(value))]
