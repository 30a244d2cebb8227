"""Settings from `config.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.config import schema
from streamling.pipeline.config.core import PluginSettings
from streamling.pipeline.config.origin import Reading, SettingValue
from streamling.pipeline.config.section import Section
from streamling.pipeline.document.loader import Document, load_yaml


def from_file(path: Path, model: type[Section], reading: Reading) -> None:
    """Add the settings of the file at ``path``."""
    try:
        document = load_yaml(path.read_bytes(), path.name)
    except OSError as error:
        raise InvalidPipeline(
            [Problem(f"the configuration file cannot be read: {error.strerror}", path.name)]
        ) from None
    from_document(document, model, reading)


def read_document(document: Document, model: type[Section]) -> Reading:
    """Return the settings of a document alone."""
    reading = Reading()
    from_document(document, model, reading)
    return reading


def from_document(document: Document, model: type[Section], reading: Reading) -> None:
    """Add the settings of a document."""
    reading.problems += document.problems
    if document.data is None:
        return
    if not isinstance(document.data, dict):
        message = "the file must contain settings, one 'name: value' per line"
        raise InvalidPipeline([Problem(message, document.file, 1, 1)])
    _FileReader(document, reading).section(model, document.data, ())


@dataclass(frozen=True)
class _FileReader:
    document: Document
    reading: Reading

    def section(self, model: type[Section], data: Mapping[str, Any], path: tuple[str, ...]) -> None:
        fields, aliases = schema.fields(model), schema.aliases(model)
        if not data:
            self._empty(path, path)
        for written, value in data.items():
            name = aliases.get(written, written)
            at = (*path, written)
            if name in fields:
                self._field(fields[name], value, (*path, name), at)
            elif model is PluginSettings and isinstance(value, dict):
                self._map(value, (*path, "secrets", name), at)
            else:
                known = [".".join((*path, each)) for each in fields]
                self.reading.warn_about_unknown_key(".".join(at), known, self.document.entry_location(at).key)

    def _field(self, info: FieldInfo, value: Any, path: tuple[str, ...], at: tuple[str, ...]) -> None:
        section, item = schema.section_of(info.annotation), schema.map_value(info)
        if value is None and schema.is_optional(info):
            self._give(None, path, at)
        elif value is None:
            self._empty(path, at)
        elif section is None and item is None:
            self._give(value, path, at)
        elif not isinstance(value, dict):
            problem = SettingValue(value, "", self.document.entry_location(at).value).problem
            self.reading.problems.append(problem(path, "must contain 'name: value' lines, indented below it"))
        elif section is not None:
            self.section(section, value, path)
        elif item is Any and value:
            self.reading.values |= {
                (*path, k): SettingValue(v, "", self.document.entry_location((*at, k)).value) for k, v in value.items()
            }
        else:
            self._map(value, path, at, schema.section_of(item))

    def _map(
        self,
        data: Mapping[str, Any],
        path: tuple[str, ...],
        at: tuple[str, ...],
        section: type[Section] | None = None,
    ) -> None:
        if not data:
            self._empty(path, at)
        for name, value in data.items():
            if section is not None and isinstance(value, dict):
                self.section(section, value, (*path, name))
            elif isinstance(value, dict):
                self._map(value, (*path, name), (*at, name))
            else:
                self._give(value, (*path, name), (*at, name))

    def _empty(self, path: tuple[str, ...], at: tuple[str, ...]) -> None:
        self.reading.empty[path] = self.document.entry_location(at).key

    def _give(self, value: Any, path: tuple[str, ...], at: tuple[str, ...]) -> None:
        entry_location = self.document.entry_location(at)
        # as written: 007 is a valid password, and the field decides how to interpret text
        written = (
            entry_location.text if entry_location.text is not None and isinstance(value, bool | int | float) else value
        )
        self.reading.values[path] = SettingValue(written, "", entry_location.value)
