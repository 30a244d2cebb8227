"""Settings from environment variables: ``STREAMLING__A__B`` is ``a.b``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.fields import FieldInfo

from streamling.pipeline.config import schema
from streamling.pipeline.config.core import PluginSettings
from streamling.pipeline.config.origin import Reading, SettingValue
from streamling.pipeline.config.section import Section
from streamling.pipeline.document.suggest import closest

_PLUGIN_SECRET = 2  # the name of a plugin and a key


def from_environment(env: Mapping[str, str], model: type[Section], reading: Reading) -> None:
    """Add the settings of the variables."""
    known = list(schema.settings(model))
    for variable in sorted(env):
        if variable.upper().startswith(schema.ENV_PREFIX):
            parts = variable[len(schema.ENV_PREFIX) :].split("__")
            if not _set(model, (), parts, SettingValue(env[variable], variable), reading):
                reading.warn_about_unknown_variable(variable, _suggest_variable(parts, known))
        elif (suggestion := variable.replace("STREAMLING_", schema.ENV_PREFIX, 1)) in {s.variable for s in known}:
            reading.warn_about_unknown_variable(variable, suggestion)  # one underscore is missing
    for setting in known:
        foreign = setting.foreign_variable
        if foreign is not None and env.get(foreign):
            reading.values[setting.path] = SettingValue(env[foreign], foreign)


def _suggest_variable(parts: list[str], known: Iterable[schema.Setting]) -> str | None:
    # compared without the prefix, which would make all names similar
    names = {setting.variable.removeprefix(schema.ENV_PREFIX) for setting in known}
    match = closest("__".join(parts), names)
    return schema.ENV_PREFIX + match if match else None


def _set(
    model: type[Section], path: tuple[str, ...], parts: list[str], setting_value: SettingValue, reading: Reading
) -> bool:
    """Find the property that ``parts`` names below ``path``; False if there is none."""
    fields = schema.fields(model)
    name, rest = parts[0].lower(), parts[1:]
    name = schema.aliases(model).get(name, name)
    info = fields.get(name)
    if info is None:
        if model is PluginSettings and len(parts) >= _PLUGIN_SECRET:
            reading.values[(*path, "secrets", name, "__".join(rest).lower())] = setting_value
            return True
        return False
    section = schema.section_of(info.annotation)
    if section is not None:
        return bool(rest) and _set(section, (*path, name), rest, setting_value, reading)
    if schema.map_value(info) is not None:
        return _set_in_map(info, (*path, name), rest, setting_value, reading)
    if rest:
        return False
    if setting_value.value or schema.is_text(info):  # an empty variable does not set a number
        reading.values[(*path, name)] = setting_value
    return True


def _set_in_map(
    info: FieldInfo, path: tuple[str, ...], rest: list[str], setting_value: SettingValue, reading: Reading
) -> bool:
    if not rest:
        _set_whole_map(path, setting_value, reading)
        return True
    section = schema.section_of(schema.map_value(info))
    if section is not None:
        return len(rest) > 1 and _set(section, (*path, rest[0].lower()), rest[1:], setting_value, reading)
    reading.values[(*path, *_map_key(path, rest))] = setting_value
    return True


def _map_key(path: tuple[str, ...], rest: list[str]) -> tuple[str, ...]:
    joined = "__".join(rest)
    if path == ("spark", "conf"):
        # names of variables are often limited to capitals; Spark's settings have dots and some camel case
        return (joined.lower().replace("_", "."),) if joined.isupper() else (joined,)
    if path[-1].endswith("_options"):
        return tuple(part.lower() for part in rest)
    return (joined.lower(),)


def _set_whole_map(path: tuple[str, ...], setting_value: SettingValue, reading: Reading) -> None:
    try:
        values = _parsed_map(setting_value.value)
    except ValueError:
        reading.problems.append(setting_value.problem(path, "cannot be read, expected k=v,k=v or a JSON object"))
        return
    for key, value in values.items():
        reading.values[(*path, key)] = SettingValue(value, setting_value.variable)


def _parsed_map(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        values: dict[str, Any] = json.loads(text)
        return values
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals and key.strip() for key, equals, _ in pairs):
        raise ValueError(text)
    return {key.strip(): value.strip() for key, _, value in pairs}
