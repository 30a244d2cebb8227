"""An operator tries to read files of the server with a file source."""

from __future__ import annotations

import glob
import os
import tempfile
from pathlib import Path

import pytest

from streamling.connectors.file.own_files import OwnFiles
from streamling.pipeline.config import load_config
from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.conftest import SECRETS
from tests.serve.attacks.definitions import from_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATHS = [
    "{folder}/config.yaml",
    "{folder}/token.txt",
    "{folder}/state.db",
    "{folder}/state.db-wal",
    "{folder}/secrets.enc",
    "{folder}/home/streamling/secrets.key",
    "{folder}/home/streamling/../streamling/secrets.key",
    "{folder}/orders/../token.txt",
    "{folder}/tok*.txt",
    "{folder}/*",
    "{folder}/linked/token.csv",
    "{folder}/linked",
    "{folder}/linked/**",
    "{folder}/linked/hard.csv",
    "file://{folder}/token.txt",
    "token.txt",
    "./state.db",
    "/proc/self/environ",
    "/proc/*/environ",
    "/proc/self/cwd/token.txt",
    "/proc/self/root/proc/self/environ",
    "/proc/self/fd/*",
    "{folder}/linked/process/environ",
    "/proc/1/cmdline",
    "/dev/stdin",
    "/sys/class/net",
    "//proc//self//maps",
    "{tmp}/streamling-spark-*/**",
]


@pytest.fixture(scope="module", autouse=True)
def links(server) -> None:
    """What somebody with access to a folder of data could put there."""
    folder = server.folder / "linked"
    folder.mkdir()
    (folder / "token.csv").symlink_to(server.folder / "token.txt")
    (folder / "process").symlink_to("/proc/self")
    (folder / "hard.csv").hardlink_to(server.folder / "token.txt")


def _path(pattern: str, folder: Path) -> str:
    return pattern.format(folder=folder, tmp=tempfile.gettempdir())


@pytest.mark.parametrize("path", PATHS)
def test_what_the_operator_tries_to_read_is_there_and_belongs_to_the_server(server, path):
    """Answers of the API do not tell a file that is refused from one that is missing: the tests below would also pass
    without the file."""
    folder = server.folder
    environment = {"XDG_CONFIG_HOME": str(folder / "home"), "STREAMLING__SERVE__TOKENS__FILE__FILE": "token.txt"}
    own = OwnFiles.of(load_config(cwd=folder, env=environment), environment)
    wanted = _path(path, folder).removeprefix("file://").replace("/proc/self", f"/proc/{server.pid}")
    wanted = wanted.replace("**", "*")  # below are links in a circle
    found = [str(folder / each) for each in glob.glob(wanted, root_dir=folder)]
    found += [os.path.join(each, name) for each in found if os.path.isdir(each) for name in os.listdir(each)]
    assert found
    assert any(own.is_own(os.path.realpath(each), os.stat(each) if os.path.isfile(each) else None) for each in found)


@pytest.mark.parametrize("path", PATHS)
def test_an_operator_reads_a_file_of_the_server(evil: Attacker, path):
    outcome = evil.create(from_file(_path(path, evil.server.folder)))
    assert "pipelines do not read it" in outcome.texts or "there are no" in outcome.texts, outcome.texts
    assert not outcome.reveals([*SECRETS.values(), "STREAMLING__", "SQLite format"])
    assert not [secret for secret in SECRETS.values() if secret in str(evil.server.rows()) and secret != SECRETS["row"]]


@pytest.mark.parametrize("path", ["{folder}/token.txt", "/proc/self/environ", "{folder}/linked/token.csv"])
@pytest.mark.parametrize("format", ["json", "parquet", "avro"])
@pytest.mark.parametrize("request_", ["validate", "preview"])
def test_an_operator_reads_a_file_of_the_server_in_another_format_without_a_pipeline(evil, path, format, request_):
    outcome = getattr(evil, request_)(from_file(_path(path, evil.server.folder), format))
    assert "pipelines do not read it" in outcome.texts, outcome.texts
    assert not outcome.reveals([*SECRETS.values(), "STREAMLING__"])


def test_an_operator_exchanges_a_link_after_the_definition_was_checked(evil: Attacker):
    """Whoever may write to a folder of data: the file is checked again when it is opened."""
    folder = evil.server.folder / "exchanged"
    folder.mkdir()
    (folder / "0.csv").write_text("id\n1\n")
    link = folder / "1.csv"
    link.symlink_to(folder / "0.csv")
    definition = from_file(folder).replace(
        "primary_key: id", "primary_key: id, mode: {type: continuous, poll_interval: 100ms}"
    )
    path = "/pipelines/evil/exchanged"
    assert (
        evil.client.post("/pipelines", {"name": "exchanged", "namespace": "evil", "definition": definition}).status
        == 201
    )
    evil.server.eventually(lambda: evil.client.get(path).json["ready"])
    (folder / "2.csv").symlink_to(evil.server.folder / "token.txt")
    link.unlink()
    link.symlink_to(evil.server.folder / "token.txt")
    evil.server.eventually(lambda: evil.client.get(path).json["state"] in ("failed", "restarting"))
    found = evil.client.get(path).text + evil.client.get(f"{path}/logs").text
    assert "pipelines do not read it" in found
    assert SECRETS["token"] not in found
    assert SECRETS["token"] not in str(evil.server.rows())
    evil.client.request("DELETE", path)
