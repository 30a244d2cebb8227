"""A client for schema registries with Confluent's API, using only the standard library."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from streamling.connectors.kafka.config import KafkaSettings
from streamling.errors import StreamlingError, Unreachable
from streamling.network.http.blocking import HttpResponse, reason_of, send_request
from streamling.network.http.errors import ResponseTooLargeError
from streamling.network.policy import ANY_ADDRESS, NetworkPolicy
from streamling.redaction import excerpt

#: time limit for a whole response
_SECONDS = 10.0
_MAX_BYTES = 16 << 20
#: nesting depth of objects and arrays in the JSON of a schema
_MAX_LEVELS = 200
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
#: number of newest versions of a subject that are prefetched, and how many at a time
_PREFETCHED_VERSIONS = 32
_CONCURRENT_REQUESTS = 8
#: statuses that may change on a retry
_RETRIABLE = frozenset({408, 429, 500, 502, 503, 504})
_UNAUTHORIZED = frozenset({401, 403})


@dataclass(frozen=True)
class RegisteredSchema:
    """An Avro schema with its id in the registry."""

    id: int
    schema: Any


class SchemaRegistry:
    """Looks up and registers schemas. Thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        timeout: float = _SECONDS,
        setting: str = "schema_registry_url",
        network: NetworkPolicy = ANY_ADDRESS,
    ) -> None:
        """``setting`` is the name of the setting with the URL, for errors."""
        self._network = network
        parts = urlsplit(url.rstrip("/"))
        if parts.username is not None:  # urllib would treat them as part of the host name
            username, password = username or unquote(parts.username), password or unquote(parts.password or "")
        #: without user and password
        self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._timeout = timeout
        self.headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        if username is not None or password is not None:
            credentials = f"{username or ''}:{password or ''}".encode()
            self.headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        self._by_id: dict[int, RegisteredSchema] = {}
        self._setting = setting
        #: whether the registry has ever responded
        self._has_answered = False

    @classmethod
    def of(cls, config: KafkaSettings, section: str, network: NetworkPolicy) -> SchemaRegistry:
        """Return the registry of a section of the configuration."""
        if not config.schema_registry_url:
            raise StreamlingError.user(f"{section}.schema_registry_url is not set, but Avro requires a schema registry")
        if urlsplit(config.schema_registry_url).scheme not in ("http", "https"):
            raise StreamlingError.user(f"{section}.schema_registry_url is not an http or https URL")
        password = config.schema_registry_password
        return cls(
            config.schema_registry_url,
            username=config.schema_registry_username,
            password=None if password is None else password.get_secret_value(),
            setting=f"{section}.schema_registry_url",
            network=network,
        )

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of ``subject``."""
        return self._version(subject, "latest")

    def find_latest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of ``subject``, or None if there is none."""
        try:
            return self.latest(subject)
        except NotRegistered:
            return None

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """Return the newest schemas of ``subject``, oldest first."""
        what = f"the subject '{subject}'"
        numbers = self._request(f"/subjects/{quote(subject, safe='')}/versions", what)
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise self._unexpected_error(what)
        with ThreadPoolExecutor(_CONCURRENT_REQUESTS, thread_name_prefix="registry") as pool:
            return list(pool.map(lambda number: self._version(subject, number), numbers[-_PREFETCHED_VERSIONS:]))

    def by_id(self, id: int) -> RegisteredSchema:
        """Return the schema with ``id``, of any subject."""
        if id not in self._by_id:
            what = f"the schema id {id}"
            self._by_id[id] = self._parse_response(id, self._request(f"/schemas/ids/{id}", what), what)
        return self._by_id[id]

    def register(self, subject: str, schema: Any) -> int:
        """Register ``schema`` under ``subject`` and return its id, new or existing."""
        body = {"schema": json.dumps(schema)}
        what = f"the subject '{subject}'"
        return self._id(self._request(f"/subjects/{quote(subject, safe='')}/versions", what, body), what)

    def _version(self, subject: str, version: int | str) -> RegisteredSchema:
        what = f"the subject '{subject}'"
        response = self._request(f"/subjects/{quote(subject, safe='')}/versions/{version}", what)
        found = self._parse_response(self._id(response, what), response, what)
        self._by_id[found.id] = found
        return found

    def _id(self, response: Any, what: str) -> int:
        id = response.get("id") if isinstance(response, dict) else None
        if not isinstance(id, int):
            raise self._unexpected_error(what)
        return id

    def _parse_response(self, id: int, response: Any, what: str) -> RegisteredSchema:
        if not isinstance(response, dict) or not isinstance(response.get("schema"), str):
            raise self._unexpected_error(what)
        return _parse_schema(id, response)

    def _request(self, path: str, what: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            reply = send_request(
                self.url + path,
                headers=self.headers,
                data=data,
                seconds=self._timeout,
                max_bytes=_MAX_BYTES,
                redirects=True,
                network=self._network,
            )
        except ResponseTooLargeError:
            raise StreamlingError.user(
                f"the schema registry at {self.url} returned more than {_MAX_BYTES} bytes for {what}",
                remedy="check the registry's URL: no schema is that long",
            ) from None
        except (OSError, HTTPException) as error:
            raise self._unavailable_error(reason_of(error)) from None
        except StreamlingError as error:
            raise error.context(f"the schema registry at {self.url}") from None
        self._has_answered = True
        if not 200 <= reply.status < 300:
            raise self._status_error(reply, what)
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise StreamlingError.transient(
                f"the schema registry at {self.url} returned invalid JSON for {what}"
            ) from None

    def _unavailable_error(self, reason: str) -> StreamlingError:
        text = f"the schema registry at {self.url} does not respond: {reason}"
        if self._has_answered:
            return StreamlingError.transient(text)
        return Unreachable(text, remedy=f"start the registry, or correct {self._setting}")

    def _status_error(self, reply: HttpResponse, what: str) -> StreamlingError:
        if reply.status == 404:
            return NotRegistered.user(
                f"the schema registry at {self.url} has no entry for {what}",
                remedy="register the schema, or correct the topic or the registry's URL",
            )
        if reply.status in _UNAUTHORIZED:
            return StreamlingError.user(
                f"the schema registry at {self.url} rejected the credentials",
                remedy="check schema_registry_username and schema_registry_password",
            )
        text = f"the schema registry at {self.url} returned {reply.status} for {what}: {_error_text(reply)}"
        return StreamlingError.transient(text) if reply.status in _RETRIABLE else StreamlingError.user(text)

    def _unexpected_error(self, what: str) -> StreamlingError:
        return StreamlingError.user(
            f"the schema registry at {self.url} returned an unexpected response for {what}",
            remedy="check the registry's URL",
        )


class NotRegistered(StreamlingError):
    """The registry has no such subject or schema."""


def _parse_schema(id: int, response: dict[str, Any]) -> RegisteredSchema:
    kind = response.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise StreamlingError.user(f"the schema with id {id} is {kind}, expected AVRO")
    if response.get("references"):
        raise StreamlingError.user(
            f"the schema with id {id} refers to other subjects", remedy="register it with all references inlined"
        )
    try:
        schema = json.loads(response["schema"])
        if _is_deep(schema):
            raise RecursionError
        return RegisteredSchema(id, schema)
    except RecursionError:
        raise StreamlingError.user(
            f"the schema with id {id} is nested too deeply", remedy=f"use at most {_MAX_LEVELS} levels"
        ) from None
    except ValueError:
        # the name of a primitive type may come without quotes
        return RegisteredSchema(id, response["schema"])


def _is_deep(schema: Any) -> bool:
    """Return whether a schema is nested more deeply than recursive code can handle."""
    level = [schema]
    for _ in range(_MAX_LEVELS):
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
