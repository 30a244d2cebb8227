"""The secret store: encrypted at rest, readable only with its key, never half-written."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.pipeline.config import load_config
from streamling.pipeline.secrets.keys import Key, KeyFile, KeySetting
from streamling.pipeline.secrets.store import SecretStore, StoredSecrets, default_key_file
from streamling.redaction import redact

VALUE = "hunter2-4f9c1e"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "secrets.key"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "secrets.enc"


@pytest.fixture
def store(path: Path, key_file: Path) -> SecretStore:
    return SecretStore(path, KeyFile(key_file))


def setting(*keys: Key) -> KeySetting:
    return KeySetting(",".join(key.text for key in keys))


# ── reading and writing ──────────────────────────────────────────────────────────────────────────────────────


def test_a_value_is_returned_as_it_was_stored(store: SecretStore, path: Path, key_file: Path) -> None:
    for name, value in {"A": VALUE, "pem": "-----BEGIN-----\nä€😀\n", "long": "x" * 65536}.items():
        store.set(name, value)
        assert SecretStore(path, KeyFile(key_file)).get(name) == value  # as another process sees it
    assert store.names() == ["a", "long", "pem"]


def test_names_are_compared_as_in_pipeline_files(store: SecretStore) -> None:
    store.set("My-API.key", VALUE)
    assert store.names() == ["my_api_key"]
    assert store.get("MY_API_KEY") == VALUE
    store.set("my_api_key", "other-value")
    assert store.get("My-API.key") == "other-value"
    assert store.delete("my-api-key")
    assert not store.delete("my-api-key")
    assert store.get("my_api_key") is None


def test_the_file_contains_no_value_and_the_same_value_twice_looks_different(store: SecretStore, path: Path) -> None:
    store.set("a", VALUE)
    store.set("b", VALUE)
    text = path.read_text()
    assert VALUE not in text
    assert base64.b64encode(VALUE.encode()).decode().rstrip("=") not in text
    values = json.loads(text)["secrets"]
    assert values["a"] != values["b"]


def test_files_are_private(store: SecretStore, path: Path, key_file: Path) -> None:
    store.set("a", VALUE)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, key_file)] == [0o600, 0o600]
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
    assert sorted(file.name for file in path.parent.iterdir()) == [".secrets.enc.lock", "keys", "secrets.enc"]


def test_a_value_is_masked_in_all_output_once_it_is_known(store: SecretStore) -> None:
    store.set("a", "masked-from-the-store-1")
    assert "masked" not in redact("it is masked-from-the-store-1.")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "-a", "x" * 129, "a\n"])
def test_invalid_names_are_refused(store: SecretStore, name: str) -> None:
    with pytest.raises(StreamlingError, match="is not a valid name of a secret"):
        store.set(name, VALUE)


@pytest.mark.parametrize(("value", "found"), [("", "is empty"), ("x" * 65537, "has 65537 bytes")])
def test_empty_and_huge_values_are_refused(store: SecretStore, value: str, found: str) -> None:
    with pytest.raises(StreamlingError, match=f"the value of the secret 'a' {found}"):
        store.set("a", value)


def test_concurrent_writers_lose_nothing(path: Path, key_file: Path) -> None:
    def write(first: int) -> None:
        own = SecretStore(path, KeyFile(key_file))
        for number in range(first, first + 10):
            own.set(f"name{number}", f"value-{number}")

    threads = [threading.Thread(target=write, args=(first,)) for first in range(0, 40, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = SecretStore(path, KeyFile(key_file))
    assert {name: store.get(name) for name in store.names()} == {f"name{n}": f"value-{n}" for n in range(40)}


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_may_be_a_setting(tmp_path: Path) -> None:
    key = Key.generate()
    env = {"STREAMLING__SECRET_STORE__KEY": key.text, "HOME": str(tmp_path / "home")}
    store = SecretStore.of(load_config(cwd=tmp_path, env=env), env)
    store.set("a", VALUE)
    assert store.get("a") == VALUE
    assert not (tmp_path / "home").exists()  # no key file was created


def test_by_default_the_key_is_in_the_configuration_folder_of_the_user(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home")}
    SecretStore.of(load_config(cwd=tmp_path, env=env), env).set("a", VALUE)
    assert (tmp_path / "home" / ".config" / "streamling" / "secrets.key").exists()
    assert default_key_file({"XDG_CONFIG_HOME": "/etc/xdg"}) == Path("/etc/xdg/streamling/secrets.key")


def test_the_key_may_be_in_the_folder_of_the_store(path: Path) -> None:
    store = SecretStore(path, KeyFile(path.with_name("secrets.key")))
    store.set("a", VALUE)
    store.rotate()
    assert store.get("a") == VALUE


def test_another_key_cannot_read_or_write_the_store(store: SecretStore, path: Path) -> None:
    store.set("a", VALUE)
    other = SecretStore(path, setting(Key.generate()))
    for call in (lambda: other.get("a"), lambda: other.set("b", VALUE), other.rotate):
        with pytest.raises(StreamlingError, match=r"the setting secret_store\.key is not the key of the secret store"):
            call()
    assert other.names() == ["a"]  # needs no key
    assert store.get("a") == VALUE


def test_a_lost_key_file_is_not_replaced(store: SecretStore, key_file: Path) -> None:
    store.set("a", VALUE)
    key_file.unlink()
    for call in (lambda: store.get("a"), lambda: store.set("b", VALUE)):
        with pytest.raises(StreamlingError, match="does not exist, but is needed to read the secret store"):
            call()
    assert not key_file.exists()


@pytest.mark.parametrize("text", ["", "short", "x" * 44, base64.b64encode(b"x" * 31).decode()])
def test_what_is_not_a_key_is_refused(path: Path, text: str) -> None:
    with pytest.raises(StreamlingError, match="does not contain a key: expected 32 bytes in base64"):
        SecretStore(path, KeySetting(text)).set("a", VALUE)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_key_file_that_others_can_access_is_refused(store: SecretStore, key_file: Path, mode: int) -> None:
    store.set("a", VALUE)
    key_file.chmod(mode)
    with pytest.raises(StreamlingError, match=f"has the permissions {mode:03o}") as raised:
        store.get("a")
    assert raised.value.remedy == f"chmod 600 {key_file}"
    key_file.chmod(0o440)  # as Kubernetes mounts it
    assert store.get("a") == VALUE


# ── rotation ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_rotation_encrypts_everything_with_a_new_key(store: SecretStore, path: Path, key_file: Path) -> None:
    store.set("a", VALUE)
    store.set("b", "other-value")
    before, old = path.read_text(), key_file.read_text()
    assert store.rotate() == 2
    assert (store.get("a"), store.get("b")) == (VALUE, "other-value")
    assert json.loads(before)["key"] != json.loads(path.read_text())["key"]
    assert key_file.read_text().endswith(old)  # other stores may use it
    key_file.write_text(old)
    with pytest.raises(StreamlingError, match="is not the key of"):
        store.get("a")


def test_a_crash_between_key_and_store_leaves_both_readable(store: SecretStore, key_file: Path) -> None:
    store.set("a", VALUE)
    KeyFile(key_file).replacement("")  # the first half of a rotation
    assert store.get("a") == VALUE
    store.set("b", "other-value")
    assert store.rotate() == 2
    assert store.get("b") == "other-value"


def test_rotation_with_a_setting_takes_the_first_key(path: Path) -> None:
    old, new = Key.generate(), Key.generate()
    store = SecretStore(path, setting(old))
    store.set("a", VALUE)
    with pytest.raises(StreamlingError, match="has no new key"):
        store.rotate()
    assert SecretStore(path, setting(new, old)).rotate() == 1
    assert SecretStore(path, setting(new)).get("a") == VALUE


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────


def _flip(text: str) -> str:
    data = json.loads(text)
    value = bytearray(base64.b64decode(data["secrets"]["a"]))
    value[-1] ^= 1
    data["secrets"]["a"] = base64.b64encode(value).decode()
    return json.dumps(data)


def _swap(text: str) -> str:
    data = json.loads(text)
    data["secrets"]["a"] = data["secrets"]["b"]
    return json.dumps(data)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: text[:-20], "it does not have the expected format"),
        (lambda text: "", "it does not have the expected format"),
        (lambda text: "[1]", "it does not have the expected format"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "it has the version 2, expected 1"),
        (_flip, "the value of 'a' was changed"),
        (_swap, "the value of 'a' was changed"),
        (lambda text: text.replace('"a": "', '"a": "*'), "the value of 'a' was changed"),
    ],
)
def test_a_damaged_store_is_named(store: SecretStore, path: Path, damage: Callable[[str], str], reason: str) -> None:
    store.set("a", VALUE)
    store.set("b", "other-value")
    path.write_text(damage(path.read_text()))
    with pytest.raises(StreamlingError, match=f"{path} is damaged: {reason}"):
        store.get("a")


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = SecretStore(tmp_path, setting(Key.generate()))
    with pytest.raises(StreamlingError, match=f"{tmp_path} cannot be read: Is a directory"):
        store.get("a")


def test_a_writer_that_is_killed_leaves_the_old_or_the_new_file(path: Path, key_file: Path) -> None:
    """Killed at any moment: the store is always readable."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from streamling.pipeline.secrets.keys import KeyFile\n"
        "from streamling.pipeline.secrets.store import SecretStore\n"
        "store = SecretStore(Path(sys.argv[1]), KeyFile(Path(sys.argv[2])))\n"
        "for number in range(100000):\n    store.set('a', f'value-{number}')\n    store.rotate()\n"
        "    print(number, flush=True)\n"
    )
    for _ in range(3):
        command = [sys.executable, "-c", script, str(path), str(key_file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ}) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            writer.kill()
        value = SecretStore(path, KeyFile(key_file)).get("a")
        assert value is not None
        assert value.startswith("value-")


# ── variables ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_mapping_of_variables_decrypts_on_use(store: SecretStore) -> None:
    store.set("a", VALUE)
    secrets = StoredSecrets(store)
    assert (list(secrets), len(secrets), "a" in secrets, "b" in secrets) == (["a"], 1, True, False)
    assert secrets["a"].get_secret_value() == VALUE
    assert secrets.get("b") is None
