"""What an attacker does with the API, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.serve.server import Answer, Client, ServeProcess

#: states in which a pipeline has failed at least once
_FAILED = ("failed", "restarting")


@dataclass(frozen=True)
class Outcome:
    """The answer to an attempt, and the texts in which its author may find something."""

    status: int
    texts: str

    def reveals(self, values: Iterable[str]) -> list[str]:
        return [value for value in values if value in self.texts]


@dataclass(frozen=True)
class Attacker:
    """An operator of a namespace of its own."""

    server: ServeProcess
    client: Client
    namespace: str

    def create(self, definition: str, config: dict[str, Any] | None = None, **fields: Any) -> Outcome:
        """Create a pipeline and wait until it has failed, been refused, or runs; then look at all that it shows."""
        name = f"attack-{uuid4().hex[:8]}"
        body = {"name": name, "namespace": self.namespace, "definition": definition, "config": config or {}, **fields}
        answer = self.client.post("/pipelines", body)
        if answer.status != 201:
            return Outcome(answer.status, _texts(answer))
        path = f"/pipelines/{self.namespace}/{name}"
        self.server.eventually(lambda: self._is_decided(path))
        seen = [answer, self.client.get(path), self.client.get(f"{path}/logs"), self.client.get(f"{path}/error")]
        seen.append(self.client.get(f"{path}/dead-letters"))
        self.client.request("DELETE", path)
        return Outcome(answer.status, "\n".join(map(_texts, seen)))

    def validate(self, definition: str, config: dict[str, Any] | None = None) -> Outcome:
        answer = self.client.post("/validate", {"definition": definition, "config": config or {}})
        return Outcome(answer.status, _texts(answer))

    def preview(self, definition: str, config: dict[str, Any] | None = None) -> Outcome:
        body = {"definition": definition, "config": config or {}}
        with self.client.stream("/preview?duration_seconds=5&rows=5", body) as response:
            return Outcome(response.status, response.read().decode(errors="replace"))

    def _is_decided(self, path: str) -> bool:
        found = self.client.get(path).json
        return found["state"] in (*_FAILED, "finished") or found["ready"]


def _texts(answer: Answer) -> str:
    return f"{json.dumps(dict(answer.headers))}\n{answer.text}"
