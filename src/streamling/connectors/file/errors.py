"""Translates errors of Spark while it reads files, with file and column."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamling.connectors.file.arrow import parquet_tables
from streamling.connectors.file.checks import find_invalid
from streamling.connectors.file.decimals import find_invalid_number
from streamling.connectors.file.frames import NO_OPERATION
from streamling.connectors.file.headers import HeaderReader
from streamling.connectors.file.schema import FileSchema
from streamling.connectors.file.staging import StagedFile, missing_file_error
from streamling.connectors.file.storage import Storage
from streamling.errors import StreamlingError

#: parts of Spark's message if a file causes the error
_READ_FAILURES: Final = ("FAILED_READ_FILE", "PATH_NOT_FOUND", "MALFORMED_", "CANNOT_MERGE_SCHEMAS")
#: Frames of Spark's readers, which are only on the stack while they read.
_READ_FRAMES: Final = re.compile(
    r"\bat (?:\w+//)?org\.apache\.(?:parquet|avro|spark\.sql\.avro|spark\.sql\.execution\.datasources\.parquet)\."
)
#: error of an executor about a file that it reads with Arrow
_ON_EXECUTOR: Final = re.compile(r"file failure: (.+)")


def executor_error(error: Exception) -> Exception:
    """Wrap an error on an executor so that `FileErrorTranslator` finds it in Spark's text."""
    return ValueError("file failure: " + str(error).replace("\n", " "))


@dataclass(frozen=True)
class FileErrorTranslator:
    """Translates the errors of a batch."""

    storage: Storage
    format: str
    schema: FileSchema
    #: files of the batch
    current: Sequence[StagedFile]

    def translate_error(self, message: str) -> StreamlingError | None:
        """Translate the error, or return None if it is not about the files."""
        if NO_OPERATION in message:
            return StreamlingError.user(NO_OPERATION, remedy="write i, u or d in every row")
        if match := _ON_EXECUTOR.search(message):
            return StreamlingError.user(match[1], remedy="correct the file")
        if self.schema.wide and (invalid_number := find_invalid_number(message)):
            return self._in_file(message, f": {invalid_number}", "correct the file, or declare more digits in it")
        if (column := find_invalid(message)) is not None:
            problem = f"a value of column '{column}' is not UTF-8, or a date outside the years 1 to 9999"
            return self._in_file(message, f": {problem}", "correct the file")
        if not any(word in message for word in _READ_FAILURES) and not _READ_FRAMES.search(message):
            return None
        return self._check_again(message) or self._in_file(message, f" cannot be read: {_reason(message)}")

    def _in_file(self, message: str, problem: str, remedy: str = "check or replace the file") -> StreamlingError:
        suspects = self._suspects(message)
        where = f"'{suspects[0].origin.path}'" if suspects else "a file"
        if suspects[1:] and not self._is_named(suspects[0], message):
            where += f", or one of the {len(suspects) - 1} files read with it:"
        return StreamlingError.user(f"{where}{problem}", remedy=remedy)

    def _check_again(self, message: str) -> StreamlingError | None:
        """Check the files again and return the error of the first invalid one."""
        header_reader = HeaderReader(self.storage, self.format, frozenset(self.schema.types))
        for one in self._suspects(message):
            try:
                header_reader.read(one).check(self.schema)
                self._read_again(one)
            except FileNotFoundError:
                return missing_file_error(one.origin)
            except StreamlingError as error:
                return error
        return None

    def _read_again(self, one: StagedFile) -> None:
        """Read a file with Arrow, which may fail at the one that Spark does not name."""
        if self.format == "parquet" and self.storage.is_on_disk:
            with open(one.path, "rb") as stream:
                for _ in parquet_tables(stream, one.origin, self.schema, 1 << 16):
                    pass

    def _suspects(self, message: str) -> list[StagedFile]:
        """Return the files of the batch, those that Spark names first."""
        return sorted(self.current, key=lambda one: not self._is_named(one, message))

    def _is_named(self, one: StagedFile, message: str) -> bool:
        return os.path.basename(one.path) in message


def _reason(message: str) -> str:
    reasons = [line for line in message.splitlines() if line.startswith("Caused by: ")]
    return reasons[-1].removeprefix("Caused by: ") if reasons else message.partition("\n")[0]
