"""Finds and reads test files; errors have their place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from streamling.dev.pipeline_tests.model import Case, CaseFile
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.pipeline.document.loader import Document, load_yaml
from streamling.pipeline.document.location import Location
from streamling.pipeline.validation_errors import Subject, problems_of

_SUFFIXES = (".test.yaml", ".test.yml")


@dataclass(frozen=True)
class LoadedFile:
    """A test file as it was read."""

    path: Path
    document: Document
    content: CaseFile

    @property
    def pipeline(self) -> Path:
        return self.path.parent / self.content.pipeline

    def location(self, *path: str | int) -> Location:
        """Return where an entry of the file is."""
        return self.document.entry_location(path).key

    def cases(self) -> Iterator[LoadedCase]:
        for name, case in self.content.cases.items():
            yield LoadedCase(self, name, case)


@dataclass(frozen=True)
class LoadedCase:
    """A case and the file that it is in."""

    file: LoadedFile
    name: str
    case: Case

    @property
    def id(self) -> str:
        return f"{self.file.path}::{self.name}"

    @property
    def location(self) -> Location:
        return self.file.location("cases", self.name)

    @property
    def now(self) -> str | None:
        return self.case.now or self.file.content.now

    @property
    def env(self) -> dict[str, str]:
        return {**self.file.content.env, **self.case.env}

    @property
    def secrets(self) -> dict[str, str]:
        return {**self.file.content.secrets, **self.case.secrets}


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the test files among ``paths`` and in folders below them, each once."""
    found = [file for path in paths for file in ([path] if not path.is_dir() else _inside(path))]
    return list(dict.fromkeys(found))


def _inside(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.test.y*ml")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.name.endswith(_SUFFIXES) and path.is_file() and not hidden:
            yield path


def load_files(paths: Sequence[Path]) -> list[LoadedFile]:
    """Read all files; raises `InvalidPipeline` with the errors of all of them."""
    loaded, problems = [], list[Problem]()
    for path in paths:
        try:
            loaded.append(load_file(path))
        except InvalidPipeline as error:
            problems += error.problems
    if problems:
        raise InvalidPipeline(problems)
    return loaded


def load_file(path: Path) -> LoadedFile:
    """Read one test file; raises `InvalidPipeline` with all errors in it."""
    document = load_yaml(_read(path), str(path))
    problems = list(document.problems)
    data = document.data
    if not isinstance(data, dict):
        remedy = "a test file has the fields 'pipeline' and 'cases'"
        raise InvalidPipeline([*problems, Problem("the test file is not a mapping", str(path), remedy=remedy)])
    try:
        content = CaseFile.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidPipeline(
            [*problems, *problems_of(error, Subject(document, (), data, CaseFile, "the test file"))]
        ) from None
    if problems:
        raise InvalidPipeline(problems)
    loaded = LoadedFile(path, document, content)
    if not loaded.pipeline.is_file():
        place = document.entry_location(("pipeline",)).value
        message = f"the pipeline file '{content.pipeline}' does not exist in '{path.parent}'"
        remedy = "write the path relative to the test file"
        raise InvalidPipeline([Problem(message, str(path), place.line, place.column, remedy)])
    return loaded


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StreamlingError.user(
            f"'{path}' cannot be read: {error.strerror or error}", remedy="check the path"
        ) from None
