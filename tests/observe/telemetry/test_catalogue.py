"""The list of metrics and its page match the code."""

from __future__ import annotations

from pathlib import Path

from streamling.observe.telemetry.catalogue import ROWS_DELTA, metrics
from streamling.observe.telemetry.config import OtlpMetricsSettings
from streamling.observe.telemetry.prometheus import family

ROOT = Path(__file__).parents[3]


def test_the_page_lists_every_metric() -> None:
    expected = [
        f"| `{name}` | `{family(name, metric.kind)}` | {metric.kind} | "
        f"{', '.join(f'`{tag}`' for tag in metric.tags)} | {metric.meaning} |"
        for name, metric in metrics().items()
    ]
    page = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    start = page.index("|---|---|---|---|---|") + 1
    assert page[start : start + len(expected)] == expected
    assert page[start + len(expected)] == ""


def test_metrics_that_are_off_by_default_exist() -> None:
    assert set(OtlpMetricsSettings().metric_deny_list) <= metrics().keys()


def test_every_listed_metric_is_recorded() -> None:
    lists = ("catalogue.py", "metrics.py")
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if path.name not in lists)
    recorded = metrics().keys() - {ROWS_DELTA}  # the push derives it from another one
    assert not [name for name in recorded if f'{name.removeprefix("df_")}"' not in code]


def test_every_listed_metric_is_checked_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name in metrics() if f"{name.removeprefix('df_')}" not in tests]
