"""Generates the reference of all SQL functions from their declarations.

Its verdicts are those that ``tests/sql/test_differential.py`` measures: the test fails if one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.functions import ALTERNATIVES
from streamling.sql.library.declaration import Function
from streamling.sql.library.registry import FAMILIES, family, functions
from streamling.sql.plan import sql_expressions
from streamling.sql.statement import Statement

_HEAD = "| Function | Result | Example | Runs in | DataFusion |"
_INTRO = """\
# SQL functions

Functions of the [sql transform](transforms/sql.md), with the names, argument orders and results of the Rust
implementation: those of DataFusion and its own. All scalar functions of Spark 4.2 are also available; if both have a
name, the function on this page is used. Generated from the declarations in `src/streamling/sql/library/` by
`make generate`; every example is a test.

- **Runs in**: *JVM* is a Spark expression and as fast as any. *Arrow* runs in a Python worker on whole Arrow arrays,
  0.1 to 3 million rows per second and core; the first batch waits about a second for the worker, and a pipeline
  without such a function never starts one.
- **DataFusion**: *equal* if a differential test found the same results on both engines over rows of NULLs, empty,
  negative, Unicode and extreme values; *own* for functions that DataFusion does not have. Where DataFusion raises an
  error, a function here may return NULL.
"""


def functions_page() -> str:
    """Return the whole page."""
    lines = [_INTRO, *_summary(), ""]
    for name, title in FAMILIES.items():
        lines += [f"## {title}", "", _HEAD, "|---|---|---|---|---|"]
        lines += [_row(function) for function in family(name)]
        lines.append("")
    lines += ["## Not supported", "", "| Function | Instead |", "|---|---|"]
    lines += [f"| `{name}` | {instead} |" for name, instead in sorted(ALTERNATIVES.items())]
    lines += ["", "Aggregate and window functions are rejected in a stateless transform.", ""]
    return "\n".join(lines)


def speed(function: Function) -> str:
    """Return where its examples run: JVM, Arrow, or either."""
    plans = [Statement(f"SELECT {example} FROM t").compile({"t": []}).plan for example in function.examples.split("\n")]
    found = {"Arrow" if any(KERNEL_PREFIX in text for text in sql_expressions(plan)) else "JVM" for plan in plans}
    return ", ".join(sorted(found, reverse=True))


def verdicts() -> dict[str, str]:
    """Return every name of DataFusion: ``equal``, ``differs`` or ``refused``."""
    found = dict.fromkeys(NAMES, "refused")
    for function in functions():
        verdict = "differs" if function.differs else "equal"
        found |= {name: verdict for name in function.names if name in NAMES}
    return found


def _summary() -> Iterator[str]:
    found = list(verdicts().values())
    equal, differs, refused = (found.count(verdict) for verdict in ("equal", "differs", "refused"))
    share = equal / len(found)
    yield (
        f"Of DataFusion's {len(found)} names {equal} ({share:.1%}) are equal, {differs} differ deliberately, {refused}"
    )
    yield "are rejected with a suggestion of what to use instead."


def _row(function: Function) -> str:
    names = f"`{function.signature}`"
    if function.aliases:
        names += "<br>also " + ", ".join(f"`{alias}`" for alias in function.aliases.split())
    examples = "<br>".join(f"`{example}`" for example in function.examples.split("\n"))
    verdict = "own" if NAMES.isdisjoint(function.names) else "equal"
    verdict = f"differs: {function.differs}" if function.differs else verdict
    cells = (names, function.summary, examples, speed(function), verdict)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# ── the scalar functions of DataFusion ───────────────────────────────────────────────────────────────────────────

_NAMES = """
    abs acos acosh array_add array_any_value array_append array_avg array_cat array_compact array_concat
    array_contains array_dims array_distance array_distinct array_element array_empty array_except array_extract
    array_has array_has_all array_has_any array_indexof array_intersect array_join array_length array_max array_min
    array_ndims array_normalize array_pop_back array_pop_front array_position array_positions array_prepend
    array_product array_push_back array_push_front array_remove array_remove_all array_remove_n array_repeat
    array_replace array_replace_all array_replace_n array_resize array_reverse array_scale array_slice array_sort
    array_subtract array_sum array_to_string array_union arrays_overlap arrays_zip arrow_cast arrow_field
    arrow_metadata arrow_try_cast arrow_typeof ascii asin asinh atan atan2 atanh bit_length btrim cardinality
    cast_to_type cbrt ceil char_length character_length chr coalesce concat concat_ws contains cos cosh
    cosine_distance cot current_date current_time current_timestamp date_bin date_format date_part date_trunc
    datepart datetrunc decode degrees digest dot_product element_at empty encode ends_with exp factorial
    file_row_index find_in_set flatten floor from_unixtime gcd generate_series get_field greatest ifnull initcap
    inner_product input_file_name instr isnan iszero lcm least left length levenshtein list_add list_any_value
    list_append list_avg list_cat list_compact list_concat list_contains list_dims list_distance list_distinct
    list_element list_empty list_except list_extract list_has list_has_all list_has_any list_indexof list_intersect
    list_join list_length list_max list_ndims list_normalize list_pop_back list_pop_front list_position
    list_positions list_prepend list_product list_push_back list_push_front list_remove list_remove_all
    list_remove_n list_repeat list_replace list_replace_all list_replace_n list_resize list_reverse list_scale
    list_slice list_sort list_subtract list_sum list_to_string list_union list_zip ln log log10 log2 lower lpad
    ltrim make_array make_date make_list make_time map map_entries map_extract map_keys map_values md5 named_struct
    nanvl now nullif nvl nvl2 octet_length overlay pi position pow power radians rand random range regexp_count
    regexp_instr regexp_like regexp_match regexp_replace repeat replace reverse right round row rpad rtrim sha224
    sha256 sha384 sha512 signum sin sinh split_part sqrt starts_with string_to_array string_to_list strpos struct
    substr substr_index substring substring_index tan tanh to_char to_date to_hex to_local_time to_time to_timestamp
    to_timestamp_micros to_timestamp_millis to_timestamp_nanos to_timestamp_seconds to_unixtime today translate trim
    trunc try_cast_to_type union_extract union_tag upper uuid version with_metadata
"""
NAMES = frozenset(_NAMES.split())
