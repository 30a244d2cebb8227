"""A client for schema registries with Confluent's interface, on the standard library alone."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from streamling.connectors.kafka.config import Kafka
from streamling.errors import StreamlingError, Unreachable
from streamling.http.blocking import HttpResponse, reason_of, send_request
from streamling.http.errors import ResponseTooLargeError
from streamling.output.redaction import excerpt

#: for a whole answer
_SECONDS = 10.0
_MOST_BYTES = 16 << 20
#: of objects and arrays inside each other in the JSON of a schema
_MOST_LEVELS = 200
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: versions of a subject that are fetched ahead, the newest ones, and how many at a time
_VERSIONS_AHEAD = 32
_AT_A_TIME = 8
#: answers that may be others later
_RETRIABLE = frozenset({408, 429, 500, 502, 503, 504})
_NOT_ALLOWED = frozenset({401, 403})


@dataclass(frozen=True)
class RegisteredSchema:
    """An Avro schema under the id that the registry gave it."""

    id: int
    schema: Any


class SchemaRegistry:
    """Looks schemas up and registers them. Every method may be called from any thread."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        timeout: float = _SECONDS,
        setting: str = "schema_registry_url",
    ) -> None:
        """``setting`` is where the address comes from, for errors."""
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
        self._setting = setting
        #: whether the registry has ever answered
        self._has_answered = False

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
            setting=f"{section}.schema_registry_url",
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
        what = f"the subject '{subject}'"
        numbers = self._ask(f"/subjects/{quote(subject, safe='')}/versions", what)
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise self._unexpected(what)
        with ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="registry") as pool:
            return list(pool.map(lambda number: self._version(subject, number), numbers[-_VERSIONS_AHEAD:]))

    def by_id(self, id: int) -> RegisteredSchema:
        """The schema under ``id``, whatever its subject."""
        if id not in self._by_id:
            what = f"the schema id {id}"
            self._by_id[id] = self._registered(id, self._ask(f"/schemas/ids/{id}", what), what)
        return self._by_id[id]

    def register(self, subject: str, schema: Any) -> int:
        """The id of ``schema`` under ``subject``, new or known."""
        body = {"schema": json.dumps(schema)}
        what = f"the subject '{subject}'"
        return self._id(self._ask(f"/subjects/{quote(subject, safe='')}/versions", what, body), what)

    def _version(self, subject: str, version: int | str) -> RegisteredSchema:
        what = f"the subject '{subject}'"
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}", what)
        found = self._registered(self._id(answer, what), answer, what)
        self._by_id[found.id] = found
        return found

    def _id(self, answer: Any, what: str) -> int:
        id = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(id, int):
            raise self._unexpected(what)
        return id

    def _registered(self, id: int, answer: Any, what: str) -> RegisteredSchema:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._unexpected(what)
        return _registered(id, answer)

    def _ask(self, path: str, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            reply = send_request(
                self._url + path,
                headers=self._headers,
                data=data,
                seconds=self._timeout,
                max_bytes=_MOST_BYTES,
                redirects=True,
            )
        except ResponseTooLargeError:
            raise StreamlingError.user(
                f"the schema registry at {self._url} answered with more than {_MOST_BYTES} bytes when asked for {what}",
                remedy="check the registry's address: no schema is that long",
            ) from None
        except (OSError, HTTPException) as error:
            raise self._unavailable(reason_of(error)) from None
        except StreamlingError as error:
            raise error.context(f"the schema registry at {self._url}") from None
        self._has_answered = True
        if not 200 <= reply.status < 300:
            raise self._refused(reply, what)
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise StreamlingError.transient(
                f"the schema registry at {self._url} did not answer with JSON when asked for {what}"
            ) from None

    def _unavailable(self, reason: str) -> StreamlingError:
        text = f"the schema registry at {self._url} does not answer: {reason}"
        if self._has_answered:
            return StreamlingError.transient(text)
        return Unreachable(text, remedy=f"start the registry, or correct {self._setting}")

    def _refused(self, reply: HttpResponse, what: str) -> StreamlingError:
        if reply.status == 404:
            return NotRegistered.user(
                f"the schema registry at {self._url} does not know {what}",
                remedy="register the schema, or correct the topic or the registry's address",
            )
        if reply.status in _NOT_ALLOWED:
            return StreamlingError.user(
                f"the schema registry at {self._url} refused the credentials",
                remedy="check schema_registry_username and schema_registry_password",
            )
        text = f"the schema registry at {self._url} answered {reply.status} when asked for {what}: {_error_text(reply)}"
        return StreamlingError.transient(text) if reply.status in _RETRIABLE else StreamlingError.user(text)

    def _unexpected(self, what: str) -> StreamlingError:
        return StreamlingError.user(
            f"the schema registry at {self._url} answered in an unexpected form when asked for {what}",
            remedy="check the registry's address",
        )


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
        schema = json.loads(answer["schema"])
        if _is_deep(schema):
            raise RecursionError
        return RegisteredSchema(id, schema)
    except RecursionError:
        raise StreamlingError.user(
            f"the schema with id {id} is nested too deeply", remedy=f"use at most {_MOST_LEVELS} levels"
        ) from None
    except ValueError:
        # a primitive's name may come without quotes
        return RegisteredSchema(id, answer["schema"])


def _is_deep(schema: Any) -> bool:
    """Whether a schema has more levels than everything that walks through it can take."""
    level = [schema]
    for _ in range(_MOST_LEVELS):
        inner = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inner for part in parts]
        if not level:
            return False
    return True


def _error_text(reply: HttpResponse) -> str:
    text = reply.body[:2000].decode(errors="replace")
    try:
        return excerpt(str(json.loads(text)["message"]), 500)
    except (ValueError, KeyError, TypeError, RecursionError):
        return excerpt(text, 200)
