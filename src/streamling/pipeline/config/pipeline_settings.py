"""The configuration of one pipeline on a server: that of the server, and what the pipeline may set of it.

`grants.py` declares both with each setting: whether a pipeline may set it, and which settings form a connection.
A connection that a pipeline changes is made without the credentials that the server has for it: otherwise whoever may
create pipelines could send them to an address of their own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.config import schema
from streamling.pipeline.config.file import read_document
from streamling.pipeline.config.model import AppConfig
from streamling.pipeline.config.origin import Reading, SettingValue
from streamling.pipeline.config.schema import ANY_NAME, Setting
from streamling.pipeline.config.section import Section
from streamling.pipeline.document.loader import Document
from streamling.pipeline.document.location import Location

log = logging.getLogger("streamling.config")

Path = tuple[str, ...]

_EMPTY = SecretStr("")
#: by rule of `grants.py`: which values are allowed, and which are not
_SIZES: Mapping[str, tuple[str, str]] = {"at most": ("smaller", "larger"), "at least": ("larger", "smaller")}

_HOST = r"([\w.-]+|\[[0-9a-f:.]+\])(?::\d+)?"
_URL = re.compile(rf"https?://{_HOST}(?:/[\w.~/-]*)?", re.ASCII | re.IGNORECASE)
_BROKER = re.compile(_HOST, re.ASCII | re.IGNORECASE)


class RefusedSettings(InvalidPipeline):
    """A pipeline sets what only the configuration of the server may set."""

    def __init__(self, problems: list[Problem], names: tuple[str, ...]) -> None:
        super().__init__(problems)
        self.names = names


def config_of_pipeline(
    document: Document,
    *,
    server: AppConfig,
    defaults: Mapping[str, Any],
    limits: Mapping[str, Any],
    load: Callable[[Reading], AppConfig],
    may_receive_credentials: Callable[[str], bool],
) -> AppConfig:
    """Return the configuration of a pipeline with the settings of ``document``; ``defaults`` are those of its size.

    A setting that has a limit is compared with ``limits``, otherwise with the value of ``server``.
    ``may_receive_credentials`` says whether a connection to this host keeps the credentials of the server. Raises
    `InvalidPipeline` with every problem found, as `RefusedSettings` if settings of the server are among them.
    """
    own = read_document(document, AppConfig)
    if refused := _refused(own):
        problems = [_refusal(path, location) for path, location in refused.items()]
        raise RefusedSettings([*own.problems, *problems], tuple(map(".".join, refused)))
    if own.problems:
        raise InvalidPipeline(own.problems)
    preset: dict[Path, SettingValue] = {(name,): SettingValue(value, "") for name, value in defaults.items()}
    config = load(Reading({**preset, **own.values}))
    if beyond := list(_beyond_limits(own.values, config, server, limits)):
        raise InvalidPipeline(beyond)
    return _without_credentials_of_server(config, server, own.values, may_receive_credentials)


# ── settings that a pipeline may set ─────────────────────────────────────────────────────────────────────────


def _declared(path: Path) -> Setting | None:
    return next((setting for setting in schema.settings(AppConfig) if setting.matches(path)), None)


def _refused(own: Reading) -> dict[Path, Location]:
    free = [setting for setting in schema.settings(AppConfig) if setting.extra("pipeline") is not None]
    values = {
        path: value.location for path, value in own.values.items() if not any(each.matches(path) for each in free)
    }
    # also without a value: a name that was accepted would seem to have an effect
    empty = {path: at for path, at in own.empty.items() if not any(each.is_below(path) for each in free)}
    return values | empty


def _refusal(path: Path, location: Location) -> Problem:
    return Problem(
        f"the setting '{'.'.join(path)}' cannot be set for one pipeline",
        location.file,
        location.line,
        location.column,
        "set it in the configuration of the server",
    )


def _beyond_limits(
    own: Mapping[Path, SettingValue], config: AppConfig, server: AppConfig, limits: Mapping[str, Any]
) -> Iterator[Problem]:
    for path, value in own.items():
        setting = _declared(path)
        if setting is None or (rule := setting.extra("pipeline")) not in _SIZES:
            continue
        wanted, limit = _value(config, path), limits.get(setting.extra("limit") or setting.name, _value(server, path))
        if (wanted > limit) if rule == "at most" else (wanted < limit):
            smaller, larger = _SIZES[rule]
            yield value.problem(
                path,
                f"is {wanted:.15g}, but the server allows {rule} {limit:.15g}",
                f"use a {smaller} value, or ask for a {larger} one in the configuration of the server",
            )


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Connection:
    """Settings of one section that lead to one system."""

    section: Path
    model: type[Section]
    #: names of settings by their part: `address`, `protection`, `credential`
    parts: Mapping[str, tuple[str, ...]]

    @property
    def inherited(self) -> Path | None:
        """The section with the values that are None here."""
        return None if self.model.inherits is None else (self.model.inherits,)

    def values(self, config: AppConfig, part: str) -> dict[str, Any]:
        """Return the values that the connection is made with."""
        found = {}
        for name in self.parts.get(part, ()):
            found[name] = _value(config, (*self.section, name))
            if found[name] is None and self.inherited is not None:
                found[name] = _value(config, (*self.inherited, name))
        return found

    def changed(self, before: AppConfig, after: AppConfig, part: str) -> list[str]:
        old, new = self.values(before, part), self.values(after, part)
        return [name for name in new if old[name] != new[name]]


def _connections(config: AppConfig) -> Iterator[_Connection]:
    """Yield all connections, the inherited ones first."""
    grouped: dict[tuple[Path, str], dict[str, tuple[str, ...]]] = {}
    for setting in schema.settings(AppConfig):
        if (name := setting.extra("connection")) is not None:
            parts = grouped.setdefault((setting.path[:-1], name), {})
            parts[setting.extra("part")] = (*parts.get(setting.extra("part"), ()), setting.path[-1])
    for section, parts in ((section, parts) for (section, _), parts in grouped.items()):
        model = _model(section)
        if section[-1] != ANY_NAME:
            yield _Connection(section, model, parts)
            continue
        for key in _value(config, section[:-1]):
            yield _Connection((*section[:-1], key), model, parts)


def _without_credentials_of_server(
    config: AppConfig, server: AppConfig, own: Mapping[Path, SettingValue], may_receive: Callable[[str], bool]
) -> AppConfig:
    changed: set[Path] = set()
    result = config
    for connection in _connections(config):
        because = _changes(connection, server, config, may_receive)
        if not because:
            continue
        changed.add(connection.section)
        dropped = [name for name in connection.parts["credential"] if (*connection.section, name) not in own]
        # what is inherited has been cleaned with its own section, unless only this one leads elsewhere
        inherits = connection.inherited if connection.inherited not in changed else None
        defaults = _model(connection.inherited) if inherits and connection.inherited else connection.model
        for name in dropped:
            result = _with(result, (*connection.section, name), schema.fields(defaults)[name].get_default())
        if lost := [name for name in dropped if _value(config, (*connection.section, name)) not in (None, _EMPTY)]:
            log.warning(
                "%s: %s of the server's configuration not used because the pipeline sets %s",
                ".".join(connection.section),
                ", ".join(lost),
                ", ".join(because),
            )
    return result


def _changes(
    connection: _Connection, server: AppConfig, config: AppConfig, may_receive: Callable[[str], bool]
) -> list[str]:
    """Return the settings because of which a connection is not the server's any more."""
    found = [name for part in ("protection", "credential") for name in connection.changed(server, config, part)]
    addresses = connection.changed(server, config, "address")
    if addresses and not found:
        old, new = connection.values(server, "address"), connection.values(config, "address")
        if all(map(may_receive, _hosts(new))) and _is_encrypted(new) >= _is_encrypted(old):
            return []
    return [*addresses, *found]


def _hosts(addresses: Mapping[str, Any]) -> list[str]:
    """Return the hosts in texts such as ``https://host:1/path`` and ``a:9092,b:9092``; a number is a port."""
    texts = [text for text in addresses.values() if isinstance(text, str)]
    # clients disagree about the host of odd texts such as `a@b` and `a#b:1`: these have none
    return [_host(part.strip()) for text in texts for part in ([text] if "://" in text else text.split(","))]


def _host(text: str) -> str:
    found = (_URL if "://" in text else _BROKER).fullmatch(text)
    return found[1] if found else ""


def _is_encrypted(addresses: Mapping[str, Any]) -> bool:
    return any(str(text).lower().startswith("https:") for text in addresses.values())


# ── values by their paths ────────────────────────────────────────────────────────────────────────────────────


def _model(section: Path) -> type[Section]:
    model: type[Section] = AppConfig
    for part in section:
        info = None if part == ANY_NAME else schema.fields(model)[part]
        if info is not None:
            found = schema.section_of(info.annotation) or schema.section_of(schema.map_value(info))
            assert found is not None, section
            model = found
    return model


def _value(config: AppConfig, path: Path) -> Any:
    value: Any = config
    for part in path:
        if value is None:
            return None
        value = value.get(part) if isinstance(value, dict) else getattr(value, _attribute(value, part))
    return value


def _with(section: Any, path: Path, value: Any) -> Any:
    """Return a copy of ``section`` with the value at ``path``."""
    first, *rest = path
    if isinstance(section, dict):
        return {**section, first: _with(section[first], tuple(rest), value) if rest else value}
    name = _attribute(section, first)
    return section.model_copy(update={name: _with(getattr(section, name), tuple(rest), value) if rest else value})


def _attribute(section: Section, name: str) -> str:
    """Return the attribute of a setting, whose name in the file may be a word of Python."""
    fields = type(section).model_fields.items()
    return next(attribute for attribute, info in fields if name in (info.alias, attribute))
