"""The secret store: one file with names in plain text and encrypted values.

Every call reads the file again, so that a long-running process sees what another one has stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.values import secret_key
from streamling.pipeline.secrets.cipher import decrypt, encrypt
from streamling.pipeline.secrets.files import locked_file, read_file, replace_file
from streamling.pipeline.secrets.keys import Key, KeyFile, Keys, KeySetting
from streamling.redaction import add_secrets

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_MAX_VALUE_BYTES = 64 * 1024


@dataclass(frozen=True)
class _Content:
    #: the id of the key that encrypted the values; empty if there are none
    key: str = ""
    #: encrypted values by name
    values: Mapping[str, str] = field(default_factory=dict)


class SecretStore:
    """Secrets by name. Names are compared as in ``${secret:NAME}``: ``API-Key`` and ``api_key`` are the same."""

    def __init__(self, path: Path, keys: Keys) -> None:
        self._path = path
        self._keys = keys

    @classmethod
    def of(cls, config: AppConfig, env: Mapping[str, str]) -> SecretStore:
        """Return the store that ``config`` names; ``env`` says where the user's configuration folder is."""
        settings = config.secret_store
        if settings.key is not None:
            return cls(settings.path, KeySetting(settings.key.get_secret_value()))
        return cls(settings.path, KeyFile(settings.key_file or default_key_file(env)))

    def names(self) -> list[str]:
        """Return the names of all secrets; needs no key."""
        return sorted(self._read().values)

    def get(self, name: str) -> str | None:
        """Return the value of ``name``, masked in all output from now on; None if there is no such secret."""
        content = self._read()
        text = content.values.get(secret_key(name))
        return None if text is None else self._decrypted(content, secret_key(name), text)

    def set(self, name: str, value: str) -> None:
        """Store ``value`` under ``name``, in place of a former value."""
        name = _checked_name(name)
        _check_value(name, value)
        add_secrets([value])
        with locked_file(self._path):
            content = self._read()
            key = self._key_of(content) if content.values else self._keys.current()
            self._write(_Content(key.id, {**content.values, name: encrypt(key, name, value)}))

    def delete(self, name: str) -> bool:
        """Remove ``name``; False if there is no such secret."""
        with locked_file(self._path):
            content = self._read()
            left = {each: text for each, text in content.values.items() if each != secret_key(name)}
            if len(left) == len(content.values):
                return False
            self._write(_Content(content.key, left))
            return True

    def rotate(self) -> int:
        """Encrypt all values with a new key and return their number. A crash leaves a readable store: the old key stays
        where the new one is."""
        with locked_file(self._path):
            content = self._read()
            values = {name: self._decrypted(content, name, text) for name, text in content.values.items()}
            key = self._keys.replacement(content.key)
            self._write(_Content(key.id, {name: encrypt(key, name, value) for name, value in values.items()}))
            return len(values)

    def _decrypted(self, content: _Content, name: str, text: str) -> str:
        value = decrypt(self._key_of(content), name, text)
        if value is None:
            raise self._damaged(f"the value of '{name}' was changed")
        add_secrets([value])
        return value

    def _key_of(self, content: _Content) -> Key:
        keys = self._keys.read()
        found = next((key for key in keys if key.id == content.key), None)
        if found is None:
            reason = "is not the key of" if keys else "does not exist, but is needed to read"
            raise StreamlingError.user(
                f"{self._keys.source} {reason} the secret store {self._path}",
                remedy="set secret_store.key_file or secret_store.key to the key that the store was written with",
            )
        return found

    # ── the file ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> _Content:
        text = read_file(self._path)
        if text is None:
            return _Content()
        try:
            data = json.loads(text)
            version, key, values = data["version"], data["key"], data["secrets"]
            entries = {str(name): str(value) for name, value in values.items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._damaged("it does not have the expected format") from None
        if version != _VERSION:
            raise self._damaged(f"it has the version {version}, expected {_VERSION}")
        return _Content(str(key), entries)

    def _write(self, content: _Content) -> None:
        data = {"version": _VERSION, "key": content.key, "secrets": dict(sorted(content.values.items()))}
        replace_file(self._path, f"{json.dumps(data, indent=2)}\n")

    def _damaged(self, reason: str) -> StreamlingError:
        return StreamlingError.user(
            f"the secret store {self._path} is damaged: {reason}",
            remedy="restore the file from a backup, or delete it and set the secrets again",
        )


class StoredSecrets(Mapping[str, SecretStr]):
    """A store as the variables of a pipeline file see it. A value is decrypted when it is used."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> SecretStr:
        value = self._store.get(name)
        if value is None:
            raise KeyError(name)
        return SecretStr(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names())

    def __len__(self) -> int:
        return len(self._store.names())

    def __contains__(self, name: object) -> bool:
        return name in self._store.names()


def default_key_file(env: Mapping[str, str]) -> Path:
    """Return the path in the user's configuration folder, apart from the store: a copy of the store alone reveals
    nothing."""
    home = Path(env.get("HOME") or Path.home())
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "streamling" / "secrets.key"


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise StreamlingError.user(
            f"'{name}' is not a valid name of a secret",
            remedy="use letters, digits, '_', '-' and '.', at most 128 characters",
        )
    return secret_key(name)


def _check_value(name: str, value: str) -> None:
    size = len(value.encode())
    if not value or size > _MAX_VALUE_BYTES:
        found = f"has {size} bytes" if value else "is empty"
        raise StreamlingError.user(
            f"the value of the secret '{name}' {found}, expected 1 to {_MAX_VALUE_BYTES} bytes",
            remedy="pass the value on standard input",
        )
