"""Faults that tests inject; the package's description lists them."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass
from typing import Final, Self

from streamling.dev.services.clickhouse_server.errors import ClickHouseError

PATH: Final = "/_test/faults"
_ACTIONS: Final = ("error", "close_before", "close_after", "truncate", "exception", "delay")


@dataclass
class Fault:
    """What happens to the next ``times`` requests that match, after the first ``skip`` of them."""

    action: str
    match: str = ""
    times: int = 1
    skip: int = 0
    code: int = 999
    name: str = "KEEPER_EXCEPTION"
    message: str = "Injected fault."
    tagged: bool = True
    seconds: float = 0.0
    bytes: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            fault = cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ClickHouseError.of(36, "BAD_ARGUMENTS", f"The fault is invalid: {error}.") from None
        if fault.action not in _ACTIONS:
            raise ClickHouseError.of(36, "BAD_ARGUMENTS", f"The action of a fault is one of {', '.join(_ACTIONS)}.")
        return fault

    @property
    def error(self) -> ClickHouseError:
        return ClickHouseError.of(self.code, self.name, self.message)


class Faults:
    """The faults that have not been used up, in the order in which they were added."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def listed(self) -> bytes:
        with self._lock:
            return json.dumps([asdict(fault) for fault in self._faults]).encode()

    def take(self, statement: bytes) -> Fault | None:
        """Return the fault for this statement, if there is one."""
        with self._lock:
            for fault in self._faults:
                if fault.match.encode() not in statement:
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times == 1:
                    self._faults.remove(fault)
                else:
                    fault.times -= bool(fault.times)
                return fault
        return None
