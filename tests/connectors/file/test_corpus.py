"""Hostile files, kept as data in ``tests/corpus/files``: each gives exactly its rows, or an error that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamling.errors import StreamlingError
from tests.connectors.file.driver import make_source, rows_or_error
from tests.paths import TESTS

pytestmark = pytest.mark.spark

CORPUS = TESTS / "corpus" / "files"
CASES = [
    pytest.param(path.stem, case, id=f"{path.stem}: {case['name']}")
    for path in sorted(CORPUS.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text())
]


def content_of(case: dict[str, Any]) -> bytes:
    if "bytes" in case:
        return bytes(case["bytes"])
    return case["latin1"].encode("latin-1") if "latin1" in case else case["content"].encode()


def outcome(spark: Any, folder: Path, format: str, case: dict[str, Any]) -> list[dict[str, Any]] | StreamlingError:
    """Return the rows of the hostile file, or its error."""
    hostile, first = folder / f"hostile.{format}", folder / f"first.{format}"
    source = make_source(folder, format=format, bounded=False)
    if "first" in case:
        first.write_text(case["first"], newline="")
        source.schema()
        first.unlink()
    hostile.write_bytes(content_of(case))
    return rows_or_error(spark, source)


@pytest.mark.parametrize(("format", "case"), CASES)
def test_a_hostile_file(spark: Any, tmp_path: Path, format: str, case: dict[str, Any]) -> None:
    found = outcome(spark, tmp_path, format, case)
    if "rows" in case:
        assert found == case["rows"]
        return
    assert isinstance(found, StreamlingError), found
    assert not found.internal
    assert found.remedy
    assert f"hostile.{format}" in str(found)
    with pytest.raises(StreamlingError, match=case["error"]):
        raise found
