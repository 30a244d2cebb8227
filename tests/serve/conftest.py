"""One server with tokens for all tests of the API that do not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.definitions import write_csv
from tests.serve.server import Client, ServeProcess

#: tokens by role; ``team`` is an operator of one namespace
TOKENS = {name: f"{name}-token-0123456789" for name in ("viewer", "operator", "admin", "team")}
#: values that no response, log or file may contain
STORED_SECRET = "stored-secret-5d1f7a"
INLINE_SECRET = "inline-secret-9e2b4c"
PRIVATE_VARIABLE = "private-variable-3c8e"


def _variables() -> dict[str, str]:
    prefix = "STREAMLING__SERVE__TOKENS__"
    found = {f"{prefix}{name.upper()}__VALUE": token for name, token in TOKENS.items()}
    found |= {f"{prefix}{name.upper()}__ROLE": name for name in ("viewer", "operator", "admin")}
    return found | {
        f"{prefix}TEAM__ROLE": "operator",
        f"{prefix}TEAM__NAMESPACES": "team",
        "STREAMLING__SERVE__VARIABLES": "PIPELINE_*",
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5",
        "STREAMLING__SECRETS__API_KEY": STORED_SECRET,
        "PIPELINE_FOLDER": "some",
        "PRIVATE_SETTING": PRIVATE_VARIABLE,
    }


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("serve")
    write_csv(folder / "some" / "1.csv", range(2))
    with ServeProcess(folder, _variables()) as process:
        process.start()
        yield process


@pytest.fixture
def clients(server: ServeProcess) -> dict[str, Client]:
    return {name: Client(server.address, token) for name, token in TOKENS.items()}


@pytest.fixture
def client(clients: dict[str, Client]) -> Client:
    return clients["admin"]


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder for files of orders."""
    folder = tmp_path / "orders"
    folder.mkdir()
    return folder
