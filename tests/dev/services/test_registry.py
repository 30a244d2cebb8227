from __future__ import annotations

import base64
import json
import urllib.request
from pathlib import Path

import pytest
from tests.harness.services import REGISTRY_PASSWORD, REGISTRY_USER

from streamling.dev.services.avro import SchemaRegistry
from streamling.dev.services.packages import Packages
from streamling.dev.services.registry import LocalRegistry
from streamling.errors import StreamlingError

pytestmark = pytest.mark.services

SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}


def subjects(registry: LocalRegistry) -> list[str]:
    with urllib.request.urlopen(f"{registry.url}/subjects", timeout=10) as answer:
        found: list[str] = json.load(answer)
        return found


@pytest.mark.soak
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


def test_the_secured_proxy_requires_the_password(registry: LocalRegistry, secured_registry_url: str) -> None:
    with pytest.raises(StreamlingError, match="401"):
        SchemaRegistry(secured_registry_url).schema(1)
    id = SchemaRegistry(registry.url).register("secured-value", SCHEMA)
    token = base64.b64encode(f"{REGISTRY_USER}:{REGISTRY_PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"{secured_registry_url}/schemas/ids/{id}", headers={"Authorization": f"Basic {token}"}
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert json.loads(json.load(answer)["schema"])["name"] == "row"
