from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from streamling.dev.services.extra import PACKAGES, require
from streamling.dev.services.packages import Packages
from streamling.dev.services.services import LocalServices
from streamling.errors import StreamlingError
from streamling.spark.jvm.java import find_java

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("module", PACKAGES)
def test_a_missing_package_is_reported_before_any_download(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = {name: find_spec(name) for name in PACKAGES}
    monkeypatch.setattr("streamling.dev.services.extra.find_spec", lambda name: None if name == module else real[name])
    services = LocalServices(tmp_path / "dev", Packages(tmp_path / "cache", find_java(os.environ)))
    with pytest.raises(StreamlingError, match=f"need the package {PACKAGES[module]}, which is not installed") as error:
        services.up()
    assert error.value.remedy == "pip install 'streamling[dev]'"
    assert not (tmp_path / "cache").exists()


def test_a_missing_module_gives_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.admin", None)
    with pytest.raises(StreamlingError, match="need the package confluent-kafka"):
        require("confluent_kafka.admin")


def test_the_extra_names_every_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [extra] = [line for line in project.splitlines() if line.startswith("dev = ")]
    assert all(f'"{package}>=' in extra for package in PACKAGES.values())
