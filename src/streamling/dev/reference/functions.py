"""Generates the reference of all SQL functions from their declarations.

Its verdicts are those that ``tests/sql/test_differential.py`` measures: the test fails if one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.functions import ALTERNATIVES
from streamling.sql.library.datafusion import NAMES
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
