from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from streamling.dev.avro import SchemaRegistry
from streamling.dev.packages import Packages
from streamling.dev.registry import LocalRegistry

pytestmark = pytest.mark.services

SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}


def subjects(registry: LocalRegistry) -> list[str]:
    with urllib.request.urlopen(f"{registry.url}/subjects", timeout=10) as answer:
        found: list[str] = json.load(answer)
        return found


def test_schemas_and_port_survive_a_kill(tmp_path: Path, packages: Packages) -> None:
    registry = LocalRegistry(tmp_path / "registry", packages=packages)
    registry.start()
    url = registry.url
    id = SchemaRegistry(url).register("orders-value", SCHEMA)

    registry.kill()
    assert not registry.running

    with LocalRegistry(tmp_path / "registry", packages=packages) as again:
        assert again.url == url
        assert subjects(again) == ["orders-value"]
        assert SchemaRegistry(url).schema(id)["name"] == "row"
