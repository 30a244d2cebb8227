"""A client for schema registries with Confluent's interface, on the standard library alone."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from streamling.config.sections import Kafka
from streamling.errors import StreamlingError

_SECONDS = 10.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: versions of a subject that are fetched ahead, the newest ones, and how many at a time
_VERSIONS_AHEAD = 32
_AT_A_TIME = 8
#: answers that may be others later
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_NOT_ALLOWED = frozenset({401, 403})


@dataclass(frozen=True)
class RegisteredSchema:
    """An Avro schema under the id that the registry gave it."""

    id: int
    schema: Any


class SchemaRegistry:
    """Looks schemas up and registers them. Every method may be called from any thread."""

    def __init__(
        self, url: str, *, username: str | None = None, password: str | None = None, timeout: float = _SECONDS
    ) -> None:
        parts = urlsplit(url.rstrip("/"))
        if parts.username is not None:  # urllib would take them for a part of the host's name
            username, password = username or unquote(parts.username), password or unquote(parts.password or "")
        self._url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._timeout = timeout
        self._headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        if username is not None or password is not None:
            credentials = f"{username or ''}:{password or ''}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        self._by_id: dict[int, RegisteredSchema] = {}

    @classmethod
    def of(cls, config: Kafka, section: str) -> SchemaRegistry:
        """The registry of a part of the configuration."""
        if not config.schema_registry_url:
            raise StreamlingError.user(f"{section}.schema_registry_url is not set, and Avro needs a schema registry")
        if urlsplit(config.schema_registry_url).scheme not in ("http", "https"):
            raise StreamlingError.user(f"{section}.schema_registry_url is no http or https address")
        password = config.schema_registry_password
        return cls(
            config.schema_registry_url,
            username=config.schema_registry_username,
            password=None if password is None else password.get_secret_value(),
        )

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of ``subject``."""
        return self._version(subject, "latest")

    def find_latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of ``subject``; None when there is none."""
        try:
            return self.latest(subject)
        except NotRegistered:
            return None

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """The newest schemas of ``subject``, oldest first."""
        numbers = self._ask(f"/subjects/{quote(subject, safe='')}/versions", f"the subject '{subject}'")
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="registry") as pool:
            return list(pool.map(lambda number: self._version(subject, number), numbers[-_VERSIONS_AHEAD:]))

    def by_id(self, id: int) -> RegisteredSchema:
        """The schema under ``id``, whatever its subject."""
        if id not in self._by_id:
            self._by_id[id] = _registered(id, self._ask(f"/schemas/ids/{id}", f"the schema id {id}"))
        return self._by_id[id]

    def register(self, subject: str, schema: Any) -> int:
        """The id of ``schema`` under ``subject``, new or known."""
        body = {"schema": json.dumps(schema)}
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions", f"the subject '{subject}'", body)
        return int(answer["id"])

    def _version(self, subject: str, version: int | str) -> RegisteredSchema:
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}", f"the subject '{subject}'")
        found = _registered(int(answer["id"]), answer)
        self._by_id[found.id] = found
        return found

    def _ask(self, path: str, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error, what) from None
        except (OSError, HTTPException, ssl.SSLError) as error:
            reason = getattr(error, "reason", error)
            raise StreamlingError.transient(f"the schema registry at {self._url} does not answer: {reason}") from None
        except ValueError:
            raise StreamlingError.transient(
                f"the schema registry at {self._url} did not answer with JSON when asked for {what}"
            ) from None

    def _refused(self, error: urllib.error.HTTPError, what: str) -> StreamlingError:
        if error.code == 404:
            return NotRegistered.user(
                f"the schema registry at {self._url} does not know {what}",
                remedy="register the schema, or correct the topic or the registry's address",
            )
        if error.code in _NOT_ALLOWED:
            return StreamlingError.user(
                f"the schema registry at {self._url} refused the credentials",
                remedy="check schema_registry_username and schema_registry_password",
            )
        text = f"the schema registry at {self._url} answered {error.code} when asked for {what}: {_said(error)}"
        return StreamlingError.transient(text) if error.code in _PASSING else StreamlingError.user(text)


class NotRegistered(StreamlingError):
    """The registry does not know what it was asked for."""


def _registered(id: int, answer: dict[str, Any]) -> RegisteredSchema:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise StreamlingError.user(f"the schema with id {id} is {kind}, expected AVRO")
    if answer.get("references"):
        raise StreamlingError.user(
            f"the schema with id {id} refers to other subjects", remedy="register it with everything written out"
        )
    try:
        return RegisteredSchema(id, json.loads(answer["schema"]))
    except ValueError:
        # a primitive's name may come without quotes
        return RegisteredSchema(id, answer["schema"])


def _said(error: urllib.error.HTTPError) -> str:
    text = error.read(2000).decode(errors="replace")
    try:
        return str(json.loads(text)["message"])[:500]
    except (ValueError, KeyError, TypeError):
        return text.strip()[:200]
