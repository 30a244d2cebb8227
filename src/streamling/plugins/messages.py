"""Operators as one function that receives messages and returns messages.

Use it if your sink learns after `flush` that rows are durable, if you forward everything to another process, or if you
port a plugin that uses messages. In all other cases `Source`, `Transform` and `Sink` are simpler; these classes extend
them.

==========================  =================================================  ==================================
 message                     sent to, when                                      responses
==========================  =================================================  ==================================
 `Init`                      all, once, before anything else                    `Error`
 `Pull`                      sources, when there is room for a batch            `NextBatch`, `Terminate`, nothing
 `NextBatch`                 transforms and sinks, with rows                    transforms: `NextBatch`
 `CheckpointMarker`          transforms and sinks, after the rows of an epoch   sinks: `CheckpointAck`, or later
 `CheckpointFinalizer`       all, when an epoch is complete; maybe twice
 `Terminate`                 all, once, at the end
==========================  =================================================  ==================================

`Error` is a valid response to any message and fails the pipeline. A sink may also `emit` its responses later, from any
thread.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.plugins.context import NodeContext
from streamling.plugins.operators import OptionsT
from streamling.plugins.sinks import Sink
from streamling.plugins.sources import END, End, Position, Source, SourceBatch, Wait
from streamling.plugins.transforms import Transform

#: seconds until a source that returned nothing is called again
_PAUSE = 0.1


@dataclass(frozen=True)
class Init:
    """The node's options and the columns of its input (none for a source)."""

    options: Mapping[str, Any]
    schema: pa.Schema


@dataclass(frozen=True)
class Pull:
    """Requests the rows after ``position``."""

    position: Position


@dataclass(frozen=True)
class NextBatch:
    """Some rows; from a source also the position after them."""

    rows: pa.RecordBatch
    position: Position = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointMarker:
    """All rows of the epoch have been sent."""

    epoch: int


@dataclass(frozen=True)
class CheckpointAck:
    """All rows of the epoch are durable."""

    epoch: int


@dataclass(frozen=True)
class CheckpointFinalizer:
    """The positions of the epoch are stored."""

    epoch: int


@dataclass(frozen=True)
class Terminate:
    """The end: of the pipeline, or, from a source, of its rows."""


@dataclass(frozen=True)
class Error:
    """A failure; ``retriable`` if the same call may succeed later, ``user_facing`` if the user can fix it."""

    message: str
    retriable: bool = False
    user_facing: bool = False

    def raised(self) -> StreamlingError:
        return StreamlingError(self.message, internal=not self.user_facing, retriable=self.retriable)


Message = Init | Pull | NextBatch | CheckpointMarker | CheckpointAck | CheckpointFinalizer | Terminate | Error


class MessageSource(Source[OptionsT]):
    """A source that handles messages."""

    @abstractmethod
    def handle(self, message: Message) -> Iterable[Message]:
        """Respond to one message; to a `Pull` with at most one batch, without blocking for long."""

    def open(self) -> None:
        _nothing(self, self.handle(_init(self.context)))

    def read(self, position: Position) -> SourceBatch | Wait | End:
        for response in self.handle(Pull(position)):
            match response:
                case NextBatch(rows, reached):
                    return SourceBatch(rows, reached)
                case Terminate():
                    return END
                case _:
                    raise _unexpected(self, response)
        return Wait(_PAUSE)

    def finalized(self, epoch: int) -> None:
        _nothing(self, self.handle(CheckpointFinalizer(epoch)))

    def close(self) -> None:
        _nothing(self, self.handle(Terminate()))


class MessageTransform(Transform[OptionsT]):
    """A transform that handles messages."""

    @abstractmethod
    def handle(self, message: Message) -> Iterable[Message]:
        """Respond to one message. The response to a batch contains all of its results."""

    def open(self) -> None:
        _nothing(self, self.handle(_init(self.context)))

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        parts = []
        for response in self.handle(NextBatch(batch)):
            if not isinstance(response, NextBatch):
                raise _unexpected(self, response)
            parts.append(response.rows)
        return pa.concat_batches(parts) if parts else pa.RecordBatch.from_pylist([], schema=self.output_schema())

    def marker(self, epoch: int) -> None:
        _nothing(self, self.handle(CheckpointMarker(epoch)))

    def finalized(self, epoch: int) -> None:
        _nothing(self, self.handle(CheckpointFinalizer(epoch)))

    def close(self) -> None:
        _nothing(self, self.handle(Terminate()))


class MessageSink(Sink[OptionsT]):
    """A sink that handles messages."""

    def __init__(self, context: NodeContext[OptionsT]) -> None:
        super().__init__(context)
        self._lock = Lock()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._failure: StreamlingError | None = None

    @abstractmethod
    def handle(self, message: Message) -> Iterable[Message]:
        """Respond to one message; to a `CheckpointMarker` also later, with `emit`."""

    def emit(self, message: Message) -> None:
        """Send a message that is not a response, from any thread. An `Error` is raised at the next message."""
        match message:
            case CheckpointAck(epoch):
                with self._lock:
                    acknowledge = self._waiting.pop(epoch, None)
                if acknowledge is not None:  # an epoch is acknowledged once, and not before its marker
                    acknowledge()
            case Error():
                self._failure = message.raised()
            case _:
                raise _unexpected(self, message)

    def open(self) -> None:
        self._send(_init(self.context))

    def write(self, batch: pa.RecordBatch) -> None:
        self._send(NextBatch(batch))

    def marker(self, epoch: int, acknowledge: Callable[[], None]) -> None:
        with self._lock:
            self._waiting[epoch] = acknowledge
        self._send(CheckpointMarker(epoch))

    def finalized(self, epoch: int) -> None:
        self._send(CheckpointFinalizer(epoch))

    def close(self) -> None:
        self._send(Terminate())

    def _send(self, message: Message) -> None:
        for response in self.handle(message):
            self.emit(response)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def _init(context: NodeContext[Any]) -> Init:
    return Init(context.options.model_dump(exclude_unset=True), context.input_schema)


def _nothing(operator: object, responses: Iterable[Message]) -> None:
    for response in responses:
        raise _unexpected(operator, response)


def _unexpected(operator: object, response: Message) -> StreamlingError:
    if isinstance(response, Error):
        return response.raised()
    return StreamlingError(f"{type(operator).__name__} returned {type(response).__name__}, which is not expected here")
