"""Reads the configuration: built-in defaults < file < environment < settings of one pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.config.core import default_cache_dir
from streamling.pipeline.config.environment import from_environment
from streamling.pipeline.config.file import from_file
from streamling.pipeline.config.model import AppConfig
from streamling.pipeline.config.origin import Reading, SettingValue
from streamling.pipeline.config.schema import (
    ANY_NAME,
    Setting,
    expected,
    fields,
    is_secret,
    is_typed_secret,
    section_of,
    settings,
)
from streamling.pipeline.config.section import Section
from streamling.pipeline.config.values import mask_url
from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.document.secrets import secrets_in, secrets_in_environment, secrets_of_text
from streamling.redaction import add_secrets

DEFAULT_NAME = "config"


def load_config(
    name: str = DEFAULT_NAME, *, cwd: Path, env: Mapping[str, str], overrides: Reading | None = None
) -> AppConfig:
    """Return the configuration from the file ``name`` (`.yaml` is added) in ``cwd`` and the variables ``env``;
    ``overrides`` are the settings of one pipeline.

    The default file may be missing. Keys that are unknown or have no effect are logged as warnings. Raises
    `InvalidPipeline` with every problem found.
    """
    reading = Reading()
    path = _find(name, cwd)
    if path is not None:
        from_file(path, AppConfig, reading)
    from_environment(env, AppConfig, reading)
    if overrides is not None:
        reading.values |= overrides.values
        reading.problems += overrides.problems
    # before any message can contain a value
    add_secrets(secrets_in_environment(env))
    add_secrets(_explicit_secrets(reading))
    reading.values.setdefault(("cache_dir",), SettingValue(str(default_cache_dir(env)), ""))
    try:
        context = {"cwd": cwd.absolute(), "config_file": path}
        config = AppConfig.model_validate(reading.nested(_sections(AppConfig)), context=context)
    except ValidationError as error:
        reading.problems += _problems(error, reading.values)
    if reading.problems:
        raise InvalidPipeline(reading.problems)
    add_secrets(secrets_in(config))
    _warn_about_ineffective_settings(reading, config)
    return config


def _sections(model: type[Section]) -> dict[str, Any]:
    """Return an empty section for each default section of ``model``: only then are its defaults validated, which
    resolves relative paths against the working directory."""
    found = {name: section_of(info.annotation) for name, info in fields(model).items() if info.default is not None}
    return {name: _sections(section) for name, section in found.items() if section is not None}


def _explicit_secrets(reading: Reading) -> Iterator[str]:
    declared_settings = list(settings(AppConfig))
    secret = [setting for setting in declared_settings if is_typed_secret(setting.info)]
    # maps whose keys are the users' names for secrets
    named = {setting.path[0] for setting in declared_settings if setting.extra("keys_are_secret_names")}
    for path, setting_value in reading.values.items():
        if isinstance(setting_value.value, str) and any(declared.matches(path) for declared in secret):
            yield from secrets_of_text(setting_value.value, is_secret=True)
        else:
            yield from secrets_in(setting_value.value, path[0] if path[0] in named else path[-1])


def _warn_about_ineffective_settings(reading: Reading, config: AppConfig) -> None:
    """Warn about settings that exist only for compatibility with the Rust implementation, unless they have the default
    value."""
    for setting in settings(AppConfig):
        if setting.no_effect is None:
            continue
        for path, setting_value in reading.values.items():
            if setting.matches(path) and (ANY_NAME in setting.path or not _is_default(setting, path, config)):
                reading.warn_about_ineffective(path, setting_value, setting.no_effect)


def _is_default(setting: Setting, path: tuple[str, ...], config: AppConfig) -> bool:
    value: Any = config
    for part in path:
        value = getattr(value, part)
    return bool(value == setting.info.get_default(call_default_factory=True))


def _find(name: str, cwd: Path) -> Path | None:
    suffixed = Path(name).suffix in (".yaml", ".yml")
    names = [name] if suffixed else [f"{name}.yaml", f"{name}.yml"]
    found = next((path for path in (cwd / each for each in names) if path.is_file()), None)
    if found is None and name != DEFAULT_NAME:
        raise InvalidPipeline([Problem(f"the configuration file {' or '.join(names)} does not exist in {cwd}")])
    return found


# ── invalid values ──────────────────────────────────────────────────────────────────────────────────────────────


def _problems(error: ValidationError, values: Mapping[tuple[str, ...], SettingValue]) -> list[Problem]:
    return [_problem(details, values) for details in error.errors(include_url=False)]


def _problem(details: Any, values: Mapping[tuple[str, ...], SettingValue]) -> Problem:
    path = tuple(str(part) for part in details["loc"])
    cause = details.get("ctx", {}).get("error")
    while path and path not in values:
        path = path[:-1]
    if not path:
        # a rule about several settings; its message names them
        return Problem(str(cause or details["msg"]), remedy=getattr(cause, "remedy", None))
    source = values[path]
    info = next((s.info for s in settings(AppConfig) if s.matches(path)), None)
    if isinstance(cause, BadValueError):
        return source.problem(path, str(cause), cause.remedy)
    if info is None or is_secret(info):
        return source.problem(path, f"cannot be used, expected {'text' if info is None else expected(info)}")
    return source.problem(path, f"is {_shown(source.value)}, expected {expected(info)}")


def _shown(value: Any) -> str:
    match value:
        case str() if len(value) > 60:
            return f"text of {len(value)} characters"
        case str():
            return f"'{mask_url(value)}'"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return str(value)
