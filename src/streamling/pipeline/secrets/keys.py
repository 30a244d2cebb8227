"""The keys of a secret store: from a file, which is created on first use, or from the setting `secret_store.key`.

Both may have several keys. The first one encrypts; the others can still decrypt what an earlier key has encrypted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from streamling.errors import StreamlingError
from streamling.pipeline.secrets.files import locked_file, read_file, replace_file
from streamling.redaction import add_secrets

KEY_BYTES = 32
_NEW_KEY = "create one with: openssl rand -base64 32"


@dataclass(frozen=True)
class Key:
    """A key of AES-256."""

    data: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Key:
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def parse(cls, text: str, source: str) -> Key:
        """Return the key that ``text`` encodes in base64; ``source`` says where it is from."""
        try:
            data = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if len(data) != KEY_BYTES:
            raise StreamlingError.user(
                f"{source} does not contain a key: expected {KEY_BYTES} bytes in base64", remedy=_NEW_KEY
            )
        add_secrets([text.strip()])
        return cls(data)

    @property
    def id(self) -> str:
        """Identifies the key without revealing it."""
        return hashlib.sha256(b"streamling secret store " + self.data).hexdigest()[:16]

    @property
    def text(self) -> str:
        return base64.b64encode(self.data).decode()


class Keys(Protocol):
    """Where the keys are from."""

    @property
    def source(self) -> str:
        """For messages."""

    def read(self) -> Sequence[Key]:
        """Return all keys, the current one first."""

    def current(self) -> Key:
        """Return the key for new values, which may be created for this."""

    def replacement(self, used: str) -> Key:
        """Return a current key that is not the one with the id ``used``. The old keys stay available."""


@dataclass(frozen=True)
class KeyFile:
    """One key per line."""

    path: Path

    @property
    def source(self) -> str:
        return str(self.path)

    def read(self) -> Sequence[Key]:
        text = read_file(self.path)
        if text is None:
            return ()
        self._check_permissions()
        return [Key.parse(line, self.source) for line in text.splitlines() if line.strip()]

    def current(self) -> Key:
        with locked_file(self.path):
            return next(iter(self.read()), None) or self._add(())

    def replacement(self, used: str) -> Key:
        # the old keys are kept: other stores may use them
        with locked_file(self.path):
            return self._add(self.read())

    def _add(self, former: Sequence[Key]) -> Key:
        new = Key.generate()
        replace_file(self.path, "".join(f"{key.text}\n" for key in (new, *former)))
        return new

    def _check_permissions(self) -> None:
        # group members may read it: this is how Kubernetes mounts secrets
        mode = self.path.stat().st_mode & 0o777
        if mode & 0o027:
            raise StreamlingError.user(
                f"the key file {self.path} has the permissions {mode:03o}: users other than its owner can access it",
                remedy=f"chmod 600 {self.path}",
            )


@dataclass(frozen=True)
class KeySetting:
    """The setting `secret_store.key`: keys separated by commas."""

    text: str = field(repr=False)
    source: str = "the setting secret_store.key"

    def read(self) -> Sequence[Key]:
        return [Key.parse(part, self.source) for part in self.text.split(",")]

    def current(self) -> Key:
        return self.read()[0]

    def replacement(self, used: str) -> Key:
        new = self.current()
        if new.id == used:
            raise StreamlingError.user(
                f"{self.source} has no new key: its first key is the one in use",
                remedy=f"set STREAMLING__SECRET_STORE__KEY to NEW,OLD and repeat the command; {_NEW_KEY}",
            )
        return new
