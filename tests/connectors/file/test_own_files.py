"""Files of the process itself are read by no pipeline, whatever the path looks like."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from streamling.connectors.file.own_files import OwnFiles
from streamling.connectors.file.storage import LocalStorage
from streamling.errors import StreamlingError
from streamling.pipeline.config import load_config

REFUSED = r"pipelines do not read it"


@pytest.fixture
def own(tmp_path: Path) -> OwnFiles:
    home = tmp_path / "home"
    for name in ("data", "plugins", "pipelines", "home/.aws", "cache"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "server.yaml").write_text(
        "secret_store: {path: store.enc, key_file: keys/secrets.key}\n"
        "state_backend: {sqlite: {database_path: state.db}}\n"
        "cache_dir: cache\n"
        "plugin: {path: plugins}\n"
        "kafka_source: {ssl_key_location: client.key}\n"
        "serve: {dir: pipelines, tokens: {ops: {file: token.txt}}}\n"
    )
    env = {"HOME": str(home), "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "google.json")}
    return OwnFiles.of(load_config("server", cwd=tmp_path, env=env), env)


@pytest.mark.parametrize("hosts", [None, ("api.example.com",), ()])
def test_only_authors_who_may_not_see_the_machine_get_vague_errors(tmp_path: Path, hosts: tuple[str, ...] | None):
    """Whatever `network.credential_hosts` is: a user with a shell sees the files anyway."""
    (tmp_path / "config.yaml").write_text("serve: {tokens: {ops: {file: token.txt}}}\n")
    loaded = load_config(cwd=tmp_path, env={})
    config = loaded.model_copy(update={"network": loaded.network.model_copy(update={"credential_hosts": hosts})})
    token = str(tmp_path / "token.txt")
    with pytest.raises(StreamlingError, match="belongs to the system or to this installation"):
        read(token, OwnFiles.of(config, {}))
    own = OwnFiles.of(config.for_stranger(), {})
    with pytest.raises(StreamlingError) as refused:
        read(token, own)
    missing = str(tmp_path / "missing")
    assert str(refused.value).replace(token, missing) == str(LocalStorage(missing, "csv", own).no_files_error())
    assert str(LocalStorage(missing, "csv", OwnFiles.of(config, {})).no_files_error()) == (
        f"there are no csv files in '{missing}': the folder does not exist"
    )


def read(path: Path | str, own: OwnFiles, format: str = "csv") -> list[bytes]:
    storage = LocalStorage(str(path), format, own)
    contents = []
    for file in storage.list_files():
        with storage.open(file.path) as stream:
            contents.append(stream.read())
    return contents


@pytest.mark.parametrize(
    "name",
    [
        *("server.yaml", "store.enc", "keys/secrets.key", "state.db", "state.db-wal", "state.db-shop.orders.lock"),
        *("client.key", "token.txt", "pipeline.yaml", "google.json", "pipelines/orders.yaml", "plugins/code.py"),
        *("cache/logs/hs_err.log", "home/.aws/credentials", "home/.config/streamling/secrets.key", ".store.enc.x/.."),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_files_of_the_process_are_refused_whether_they_exist_or_not(tmp_path, own, name, exists):
    if name.endswith(".."):
        name = "data/../store.enc"
    if exists:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("secret\n")
    with pytest.raises(StreamlingError, match=REFUSED):
        read(tmp_path / name, own)


@pytest.mark.parametrize(
    "path",
    [
        *("/proc/self/environ", "/proc/*/environ", "/proc/self/fd", "/proc/self/root/proc/self/environ", "/proc"),
        *(
            "/dev/stdin",
            "/dev/zero",
            "/dev",
            "/sys/class",
            "/run/secrets/token",
            "/var/run/secrets/x",
            "//proc/self/maps",
        ),
        *("/tmp/../proc/self/cmdline", "/proc/no-such-file"),
    ],
)
def test_what_the_system_shows_as_files_is_refused(own, path):
    with pytest.raises(StreamlingError, match=REFUSED):
        read(path, own)


def test_an_open_file_of_the_process_is_refused(tmp_path, own):
    (tmp_path / "state.db").write_text("secret\n")
    with (tmp_path / "state.db").open() as stream, pytest.raises(StreamlingError, match=REFUSED):
        read(f"/proc/self/fd/{stream.fileno()}", own)


@pytest.mark.parametrize("pattern", ["data", "data/*.csv", "data/x.csv", "data/**"])
@pytest.mark.parametrize("target", ["store.enc", "/proc/self/environ"])
def test_a_link_is_what_it_leads_to(tmp_path, own, pattern, target):
    (tmp_path / "store.enc").write_text("secret\n")
    (tmp_path / "data" / "x.csv").symlink_to(tmp_path / target)
    with pytest.raises(StreamlingError, match=REFUSED):
        read(tmp_path / pattern, own)


def test_a_linked_folder_is_what_it_leads_to(tmp_path, own):
    (tmp_path / "data" / "inner").symlink_to("/proc/self")
    with pytest.raises(StreamlingError, match=REFUSED):
        read(tmp_path / "data" / "inner" / "environ", own)


@pytest.mark.parametrize("pattern", ["data", "data/**"])
@pytest.mark.parametrize("target", ["/proc", "/dev", "cache"])
def test_a_folder_is_not_left_through_a_link(tmp_path, own, pattern, target):
    (tmp_path / "data" / "inner").symlink_to(tmp_path / target)
    with pytest.raises(StreamlingError, match=REFUSED):
        read(tmp_path / pattern, own)


def test_a_folder_of_the_process_inside_a_folder_of_data_is_left_out(tmp_path, own):
    (tmp_path / "cache" / "x.csv").write_text("secret\n")
    (tmp_path / "data" / "a.csv").write_text("id\n")
    assert read(tmp_path, own) == [b"id\n"]


def test_a_hard_link_is_the_file_itself(tmp_path, own):
    (tmp_path / "store.enc").write_text("secret\n")
    os.link(tmp_path / "store.enc", tmp_path / "data" / "x.csv")
    with pytest.raises(StreamlingError, match=REFUSED):
        read(tmp_path / "data", own)


def test_a_link_that_changes_after_the_listing_is_checked_again(tmp_path, own):
    (tmp_path / "store.enc").write_text("secret\n")
    (tmp_path / "data" / "good.csv").write_text("id\n")
    link = tmp_path / "data" / "x.csv"
    link.symlink_to(tmp_path / "data" / "good.csv")
    storage = LocalStorage(str(link), "csv", own)
    (file,) = storage.list_files()
    link.unlink()
    link.symlink_to(tmp_path / "store.enc")
    with pytest.raises(StreamlingError, match=REFUSED):
        storage.open(file.path)
    with pytest.raises(StreamlingError, match=REFUSED):
        storage.real_path(file.path)


def test_what_was_opened_counts_whatever_its_path_leads_to_by_then(tmp_path, own):
    """A link may be exchanged between the look at its path and the moment in which the file is opened."""
    (tmp_path / "store.enc").write_text("secret\n")
    (tmp_path / "data" / "x.csv").write_text("id\n")
    harmless = str(tmp_path / "data" / "x.csv")
    for opened in ("/proc/self/environ", "/sys/kernel/notes", tmp_path / "store.enc"):
        with pytest.raises(StreamlingError, match=REFUSED):
            own.check(harmless, harmless, os.stat(opened))
    own.check(harmless, harmless, os.stat(harmless))


def test_rows_of_other_runs_in_temporary_folders_are_refused(own):
    with tempfile.TemporaryDirectory(prefix="streamling-spark-") as folder:
        (Path(folder) / "1.csv").write_text("id\n1\n")
        with pytest.raises(StreamlingError, match=REFUSED):
            read(folder, own)
        with pytest.raises(StreamlingError, match=REFUSED):
            read(Path(folder).parent / "streamling-*" / "*.csv", own)


def test_the_message_does_not_say_where_a_link_leads(tmp_path, own):
    (tmp_path / "data" / "x.csv").symlink_to(tmp_path / "keys" / "secrets.key")
    with pytest.raises(StreamlingError) as raised:
        read(tmp_path / "data" / "x.csv", own)
    assert "secrets.key" not in raised.value.with_causes


@pytest.mark.parametrize("name", ["data/a.csv", "a.csv", "plugins/a.csv", "pipelines/day=1/a.csv", "server.csv"])
def test_all_other_files_are_read(tmp_path, own, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("id\n")
    assert read(tmp_path / name, own) == [b"id\n"]
    assert read((tmp_path / name).parent, own) == [b"id\n"]


def test_a_link_to_data_is_read(tmp_path, own):
    (tmp_path / "elsewhere.csv").write_text("id\n")
    (tmp_path / "data" / "a.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert read(tmp_path / "data", own) == [b"id\n"]
