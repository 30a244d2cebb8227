"""`${secret:NAME}` in a pipeline file: the configuration first, then the secret store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamling.engine.launch.launcher import Launcher
from streamling.errors import InvalidPipeline
from streamling.pipeline.secrets.keys import Key, KeySetting
from streamling.pipeline.secrets.store import SecretStore

PIPELINE = """\
sources:
  orders: {type: kafka, topic: t, primary_key: id}
sinks:
  out:
    type: webhook
    from: orders
    url: http://localhost
    headers: {X-Key: "${secret:API-KEY}"}
"""
KEY = Key.generate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path


def store(folder: Path) -> SecretStore:
    return SecretStore(folder / "secrets.enc", KeySetting(KEY.text))


def header(folder: Path, **env: str) -> str:
    launcher = Launcher.load(cwd=folder, env={"STREAMLING__SECRET_STORE__KEY": KEY.text, **env})
    options = launcher.pipeline(str(folder / "pipeline.yaml"))["out"].options
    return options.headers["X-Key"].get_secret_value()


def test_a_stored_secret_is_used(folder: Path) -> None:
    store(folder).set("api_key", "from-the-store")
    assert header(folder) == "from-the-store"


def test_the_configuration_takes_precedence(folder: Path) -> None:
    store(folder).set("api_key", "from-the-store")
    assert header(folder, STREAMLING__SECRETS__API_KEY="from-the-config") == "from-the-config"


def test_an_unknown_name_is_compared_with_those_of_the_store(folder: Path) -> None:
    store(folder).set("api_kei", "value")
    with pytest.raises(InvalidPipeline) as raised:
        header(folder)
    (problem,) = raised.value.problems
    assert problem.message == "the secret 'API-KEY' is not configured"
    assert problem.remedy is not None
    assert problem.remedy.startswith("did you mean 'api_kei'?; set secrets.api_key or STREAMLING__SECRETS__API_KEY")
    assert problem.remedy.endswith("or store it: streamling secret set api_key")


def test_a_store_that_cannot_be_decrypted_is_a_problem_of_the_file(folder: Path) -> None:
    store(folder).set("api_key", "value")
    with pytest.raises(InvalidPipeline) as raised:
        header(folder, STREAMLING__SECRET_STORE__KEY=Key.generate().text)
    (problem,) = raised.value.problems
    assert problem.message.startswith(
        "the secret 'API-KEY' cannot be read: the setting secret_store.key is not the key"
    )
    assert problem.line == 8


@pytest.mark.parametrize("uses_store", [True, False])
def test_the_cipher_is_imported_only_when_a_stored_secret_is_used(folder: Path, uses_store: bool) -> None:
    store(folder).set("api_key", "value")
    script = (
        "import sys\nfrom streamling.engine.launch.launcher import Launcher\n"
        "Launcher.load().pipeline()\n"
        "print([name for name in ('cryptography', 'streamling.pipeline.secrets.cipher') if name in sys.modules])\n"
    )
    env = {**os.environ, "STREAMLING__SECRET_STORE__KEY": KEY.text}
    if not uses_store:
        env["STREAMLING__SECRETS__API_KEY"] = "x-y-z-0"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    assert ("'cryptography'" in done.stdout) is uses_store
