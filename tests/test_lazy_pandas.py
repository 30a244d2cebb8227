"""pandas is often installed, as `chdb` requires it: it is imported only for those who use it. A stand-in takes its
place here, because the environment of the tests is without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.script import SOURCES, run_python

#: what pyarrow and PySpark read of it
PANDAS = """
import os, sys
from types import SimpleNamespace

class DataFrame: ...
class Index: ...
class Series: ...
class Categorical: ...
class Other: ...

__version__ = "3.0.0"
api = SimpleNamespace(
    extensions=SimpleNamespace(ExtensionArray=Other, ExtensionDtype=Other), types=SimpleNamespace(DatetimeTZDtype=Other)
)
with open(os.environ["PANDAS_IMPORTS"], "a") as imports:
    imports.write(f"{sys.argv[0]}\\n")
"""

SPARK = """
from pathlib import Path
from streamling.spark.jvm.session import SparkDriver

runtime = SparkDriver.start(master="local[2]", quick=True, cache_dir=Path(CACHE))
assert runtime.session().range(2).toArrow().num_rows == 2
runtime.stop()
"""


@pytest.fixture
def with_pandas(tmp_path: Path, cache_dir: Path):
    """Run code where pandas is installed; return the processes that imported it."""
    package, imports = tmp_path / "site" / "pandas", tmp_path / "imports"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PANDAS)

    def run(code: str) -> list[str]:
        variables = {"PANDAS_IMPORTS": str(imports), "PYTHONPATH": f"{package.parent}:{SOURCES}"}
        outcome = run_python(f"CACHE = {str(cache_dir)!r}\n{code}", cwd=tmp_path, env=variables)
        assert (outcome.status, outcome.err) == (0, "")
        return imports.read_text().splitlines() if imports.exists() else []

    return run


@pytest.mark.spark
def test_spark_does_not_import_pandas(with_pandas) -> None:
    assert with_pandas(SPARK) == []


@pytest.mark.spark
def test_pandas_of_a_plugin_causes_no_warning(with_pandas) -> None:
    assert with_pandas(f"import warnings; warnings.simplefilter('default'); import streamling, pandas\n{SPARK}")


#: A function of this package makes pyarrow look for pandas, which it does once. Without NumPy few functions do.
LOOKUP = """
import streamling

exec("import pyarrow as pa; assert not pa.lib._pandas_api.have_pandas", {"__name__": "streamling.example"})
"""


def test_pyarrow_does_not_import_pandas_for_us(with_pandas) -> None:
    assert with_pandas(LOOKUP) == []


def test_pyarrow_recognises_what_a_plugin_gets_from_pandas(with_pandas) -> None:
    assert with_pandas(f"{LOOKUP}import pandas, pyarrow as pa\nassert pa.lib._pandas_api.have_pandas") == ["-c"]
