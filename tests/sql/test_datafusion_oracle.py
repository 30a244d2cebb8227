"""The same expression over the same rows in DataFusion and in Spark after our rewriting: equal results."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import datafusion as oracle
import pyarrow as pa
import pytest

from streamling.sql.frames import prepare
from streamling.sql.plan import Column
from streamling.sql.statement import Statement
from streamling.types.spark import to_spark_schema

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int32(),
        "x": pa.float64(),
        "s": pa.string(),
        "flag": pa.bool_(),
        "tags": pa.list_(pa.int64()),
        "more": pa.list_(pa.int64()),
        "ts": pa.timestamp("us"),
        "day": pa.date32(),
        "price": pa.decimal128(38, 18),
    }
)
ROWS = pa.Table.from_pylist(
    [
        {
            "id": 1,
            "n": 7,
            "x": 2.5,
            "s": "Ab c",
            "flag": True,
            "tags": [3, 1, 2, 1],
            "more": [1, 9],
            "ts": 0,
            "day": 0,
            "price": Decimal("0.1"),
        },
        {
            "id": 2,
            "n": -7,
            "x": -2.5,
            "s": "",
            "flag": False,
            "tags": [],
            "more": [4],
            "ts": 10**15 + 123456,
            "day": 19000,
        },
        {
            "id": 3,
            "n": None,
            "x": None,
            "s": None,
            "flag": None,
            "tags": None,
            "more": None,
            "ts": None,
            "day": None,
            "price": None,
        },
        {
            "id": 4,
            "n": 1000,
            "x": 0.1,
            "s": "żółw_%",
            "flag": True,
            "tags": [5],
            "more": [5],
            "ts": -1,
            "day": -1,
            "price": Decimal(7),
        },
    ],
    schema=SCHEMA,
)

EXPRESSIONS = r"""
id + 1
n + 1
n * 2
n - id
n / 2
n / 2.0
-n / 2
n % 3
7 / 2
1
1.5
1e3
x * 2
x / 2
-x
n > 0
n between 1 and 10
n in (7, 8)
n not in (7, 8)
n is null
n is not distinct from 7
flag and n > 0
not flag
s || '!'
s || 'a' || 'b'
cast(n as text) || '!'
n::text
x::bigint
n::double
try_cast(s as int)
try_cast('12' as int)
cast(x as decimal(10, 2))
s like 'A%'
s like '%\\_\\%'
s ilike 'ab%'
s ~ '^A'
s ~* '^a'
s !~ '^A'
'a\\d'
E'a\\nb'
'it''s'
case when n > 0 then 1 else 0 end
case n when 7 then 'seven' end
case when flag then n else 1.5 end
coalesce(n, 0)
coalesce(s, 'none')
nullif(n, 7)
nvl(n, 1)
ifnull(n, 1)
nvl2(n, 1, 2)
greatest(n, 3)
least(n, 3)
concat(s, 'x')
concat('a', null, 'b')
concat(s, n)
concat_ws('-', s, null, 'z')
upper(s)
lower(s)
lower(upper(concat(s, 'ß')))
upper(lower(concat(s, 'İ')))
trim(' x ')
btrim('xxaxx', 'x')
ltrim('xxa', 'x')
rtrim('axx', 'x')
trim(both 'x' from 'xax')
date_trunc('month', day)
length(s)
char_length(s)
octet_length(s)
bit_length(s)
left(s, 2)
right(s, 2)
substr(s, 2)
substr(s, 2, 2)
substring(s from 2 for 1)
lpad(s, 6, '*')
rpad(s, 6, '*')
repeat('ab', 2)
replace(s, 'b', 'X')
reverse(s)
strpos(s, 'b')
instr(s, 'b')
position('b' in s)
split_part('a,b,c', ',', 2)
split_part('a,b,c', ',', -1)
starts_with(s, 'A')
ends_with(s, 'c')
contains(s, 'b')
translate('abc', 'ab', 'xy')
initcap('ab cd')
ascii('a')
chr(65)
to_hex(255)
md5('a')
sha256('a')
sha512('a')
encode('abc', 'hex')
encode('abc', 'base64')
decode('616263', 'hex')
find_in_set('b', 'a,b,c')
levenshtein('kitten', 'sitting')
substr_index('a.b.c', '.', 2)
overlay('abcdef' placing 'xx' from 2 for 3)
abs(n)
ceil(x)
floor(x)
round(x)
round(2.567, 2)
trunc(x)
trunc(2.567, 2)
signum(x)
sqrt(4.0)
cbrt(27.0)
power(2.0, 3)
exp(1.0)
ln(10.0)
log(100.0)
log(2.0, 8.0)
log10(100.0)
log2(8.0)
sin(x)
cos(x)
tan(x)
atan2(1.0, 2.0)
degrees(1.0)
radians(180.0)
pi()
isnan(x)
iszero(x)
nanvl(x, 1.0)
factorial(5)
make_array(1, 2, 3)
[1, 2, 3]
tags[1]
tags[-1]
tags[10]
tags[2:3]
array_element(tags, 2)
array_append(tags, 7)
array_push_back(tags, 7)
array_prepend(7, tags)
array_concat(tags, more)
array_contains(tags, 1)
array_has(tags, 1)
array_has_all([1, 2, 3], [1, 2])
array_has_any([1, 2, 3], [3, 9])
list_has(tags, 1)
array_position(tags, 1)
array_positions([1, 2, 1], 1)
array_length(tags)
list_length(tags)
cardinality([1, 2])
empty([1])
array_max(tags)
array_min(tags)
array_reverse(tags)
array_sort([3, 1, 2])
array_slice([1, 2, 3, 4], 2, 3)
array_pop_back(tags)
array_pop_front(tags)
array_remove([1, 2, 1], 1)
array_remove_all([1, 2, 1], 1)
array_repeat(1, 3)
array_replace_all([1, 2, 1], 1, 9)
array_to_string([1, 2], '-')
array_join([1, 2], '-')
array_sum([1, 2, 3])
array_except([1, 2, 3], [2])
flatten([[1, 2], [3]])
generate_series(1, 3)
range(1, 4)
string_to_array('a.b', '.')
named_struct('a', 1, 'b', 'x')
struct(1, 'x')
{'a': 1}
named_struct('a', 1)['a']
get_field(named_struct('a', 1), 'a')
date_trunc('day', ts)
date_trunc('hour', ts)
date_part('year', ts)
date_part('month', ts)
date_part('dow', ts)
date_part('doy', ts)
date_part('second', ts)
date_part('epoch', ts)
extract(year from ts)
extract(dow from ts)
extract(hour from ts)
extract(day from day)
ts + interval '1 hour'
ts - interval '1 day'
ts > timestamp '1970-01-01 00:00:00'
day > date '2000-01-01'
cast(ts as date)
cast(day as timestamp)
cast('2020-01-02 03:04:05' as timestamp)
to_timestamp('2020-01-02 03:04:05')
to_timestamp_seconds(id)
to_timestamp_millis(id)
to_timestamp_micros(id)
from_unixtime(id)
to_date('2020-01-02')
make_date(2020, 1, 2)
to_char(ts, '%Y-%m-%dT%H:%M:%S')
date_format(ts, '%d/%m/%y')
to_timestamp('02.01.2020 03:04:05', '%d.%m.%Y %H:%M:%S')
to_date('02.01.2020', '%d.%m.%Y')
acos(0.5)
asin(0.5)
atan(0.5)
sinh(0.5)
cosh(0.5)
tanh(0.5)
cot(0.5)
pow(2.0, 3)
character_length(s)
array_compact([1, null])
array_intersect([1, 2], [2])
regexp_like(s, 'b')
regexp_count('abab', 'a')
array_add([1.5], [2.0])
array_scale([1.5], 2.0)
price = 0.1
price + 1
price * 2
coalesce(price, 0.5)
case when n > 0 then price else 0.5 end
arrow_cast(n, 'Int64')
arrow_cast(n, 'Utf8')
cast(n as int8)
cast(1 as decimal)
cast(ts as text)
ts || '!'
x || '!'
cast(x * 1e20 as text)
cast(x / 1e7 as text)
cast(x * 12345678 as text)
concat(ts, x)
left(right(substr(s, 1, 3), 2), 1)
round(x * 1.8 + 32, 1)
round(x + 1, 1) * 2
trunc(x * 10 + 0.55, 1)
power(x + 1, 2)
power(n + 1, 2)
abs(n - 10)
abs(-x + 1)
left(s || 'xyz', n - 4)
right(s || 'xyz', n - 4)
lpad(s || 'a', 2 + 5, 'x' || 'y')
substr(s || 'xyz', n - 5)
repeat('a' || 'b', n - 4)
split_part('a-b' || '-c', '-', n - 5)
strpos('x' || s, 'b' || ' ')
nullif(n + 1, 8)
tags[n - 6]
tags[n - 6:n - 5]
array_length(array_concat(tags, more))
array_position(tags, n - 6)
factorial(2 + 1)
gcd(n - 1, 4 + 2)
log(2 + 8, x * x + 1)
n << 40
n << -1
id >> 65
1 << 40
n::smallint << 20
tags[0]
tags[n - 7]
tags[1:3:2]
tags[-1:1:-1]
tags[0:2]
tags || NULL
NULL || tags
tags || 3
tags || more
s LIKE 'A\b%'
s LIKE 'Ab c\'
s LIKE '%\_\%'
s LIKE s || '\'
s ILIKE 'a\B%'
regexp_replace(s, '(b)', '[\2]', 'g')
regexp_replace(s, '(b)', '[$1x]', 'g')
regexp_replace(s, '(b)', '[${1}x$$]', 'i')
regexp_replace(s, '(?P<q>b)', '[$q\1]', 'g')
regexp_replace(s, '(b)', '\10', 'i')
s SIMILAR TO 'A.*|x'
trim(s, 'A')
'2024-05-06T07:08:09+02:00'::timestamp
'2024-05-06t07:08:09z'::timestamp
'2024-05-06 07:08:09z'::timestamp
'2024-05-06t07:08:09.5+02:00'::timestamp
'2024-05-06t07:08:09 Europe/Berlin'::timestamp
TRY_CAST('2024-05-06t07:08:09z' AS TIMESTAMP)
TRY_CAST('2024-05-06t07:08' AS TIMESTAMP)
TRY_CAST('2024-05-06t07:08:09z' AS DATE)
ts = '1970-01-01t00:00:00z'
INTERVAL '90 minutes' + '2024-05-06 07:08:09'::timestamp
INTERVAL '1 day' + '2024-05-06'::date
INTERVAL '90 minutes' + ts
CASE WHEN NULL THEN n ELSE x END
CASE WHEN n > 0 THEN 'a' WHEN NULL THEN 'b' END
coalesce(-NULL, 9007199254740993)
coalesce(NULL + NULL, 9007199254740993)
coalesce(NULL / NULL, n)
greatest(-NULL, 9007199254740993)
arrow_typeof(coalesce(-NULL, CAST(1 AS TINYINT)))
CASE WHEN n > 0 THEN -NULL ELSE 9007199254740993 END
CAST(trunc(-0.7) AS TEXT) || 'x'
trunc(-0.7) || ''
trunc(x * -0.0) || ''
trunc(x * -0.0, 0) || ''
trunc(-0.7, 0) || ''
trunc(-x) || ''
array_sum([1, 2, 4]) & 6
cardinality([1, 2, 3]) & array_sum([1, 2])
7.9 & n
n | 1.5
TIMESTAMP '2024-05-06 07:08:09 +02:00'
to_timestamp('2024-05-06T07:08:09+02:00')
to_date('2024-05-06T23:30:00-05:00')
'2024-05-06T23:30:00-05:00'::date
to_unixtime('2024-05-06T07:08:09+02:00')
date_trunc('day', '2024-05-06T23:30:00-05:00')
ts < '2001-09-09T03:46:40.123456+02:00'
ts = '2001-09-09T03:46:40.123456+02:00'
ts BETWEEN '1970-01-01T02:00:00+02:00' AND '1970-01-01T02:00:00+02:00'
n IN (7, 1000) IS NULL
n NOT IN (7, NULL) IS NULL
n BETWEEN 1 AND 10 IS NOT NULL
s LIKE 'A%' IS TRUE
n IS NOT NULL = flag
n IS NULL = (x IS NULL)
flag IS DISTINCT FROM true IS TRUE
s ~ 'b' IS NOT TRUE
n IN (7) IN (true, NULL)
NOT n = 7 IS NULL
ts IN ('1970-01-01T02:00:00+02:00')
day = '1970-01-01T23:30:00-05:00'
day <> '2022-01-08'
CASE WHEN n > 0 THEN s ELSE n END
CASE WHEN n > 0 THEN x ELSE 'x' END
nvl2(n, n, 'x')
greatest(n, '9')
nullif('7', n)
n = '007'
x = '2.5'
date_bin(INTERVAL '1 month', ts)
date_bin(INTERVAL '5 months', ts, TIMESTAMP '2000-01-31 12:00:00')
date_bin(INTERVAL '1 year', ts)
date_bin(INTERVAL '1.5 hours', ts)
ts + INTERVAL '1.5 hours'
ts + INTERVAL '5 min'
ts - INTERVAL '1 mon'
ts + INTERVAL '1 month 2 days 3 hours 4.5 seconds'
ts - INTERVAL '1.5 months'
ts + INTERVAL '1 hour 1' MINUTE
ts + INTERVAL 2 WEEK
ts + INTERVAL '-1.5 days'
ts + INTERVAL '1 century'
day + INTERVAL '1 month 1 day'
day + INTERVAL '36 hours'
day - INTERVAL '1 hour'
day + INTERVAL '1 day'
TRY_CAST('2024' AS DATE)
TRY_CAST('1.5d' AS DOUBLE)
TRY_CAST(s AS DATE)
extract(year FROM ts) / 10
extract('week' FROM day)
extract(dow FROM ts)
"""

CASES = [line for line in EXPRESSIONS.strip().splitlines() if line]


COLUMNS = [Column(field.name, field.type) for field in SCHEMA]
#: all expressions in one statement: one plan in each engine instead of hundreds
ALL = "SELECT id, " + ", ".join(f"{expression} AS v{number}" for number, expression in enumerate(CASES)) + " FROM t"


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    context = oracle.SessionContext()
    context.from_arrow(ROWS, "t")
    return context.sql(f"{ALL} ORDER BY id").to_arrow_table()


@pytest.fixture(scope="module")
def actual(spark: Any) -> pa.Table:
    compiled = Statement(ALL).compile({"t": COLUMNS})
    assert not compiled.problems, compiled.problems
    frame = spark.createDataFrame(ROWS.to_pylist(), to_spark_schema(SCHEMA))
    return prepare(spark, compiled.plan).run({"t": frame}).toArrow()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


@pytest.mark.parametrize(("number", "expression"), list(enumerate(CASES)), ids=CASES)
def test_equals_datafusion(expected: pa.Table, actual: pa.Table, number: int, expression: str) -> None:
    wanted = [_plain(value) for value in expected[f"v{number}"].to_pylist()]
    assert [_plain(value) for value in actual[f"v{number}"].to_pylist()] == wanted


@pytest.mark.parametrize(("number", "expression"), list(enumerate(CASES)), ids=CASES)
def test_declared_types_are_those_of_spark(actual: pa.Table, number: int, expression: str) -> None:
    """The type of a column in the static check must be correct, or unknown."""
    compiled = Statement(f"SELECT {expression} AS v FROM t").compile({"t": COLUMNS})
    assert compiled.columns is not None
    claimed = compiled.columns[0].type
    assert claimed is None or _layout(claimed) == _layout(actual.schema.field(f"v{number}").type)


def _layout(type_: pa.DataType) -> str:
    return str(type_).replace("element:", "item:").replace(" not null", "")
