"""The page `docs/configuration.md`, generated from the models by ``python -m streamling.reference.configuration``."""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from streamling.config.model import AppConfig
from streamling.config.schema import Setting, expected, map_value, settings
from streamling.document.scalars import format_duration

_INTRODUCTION = """\
# Configuration

<!-- Made by `python -m streamling.reference.configuration`; a test keeps it true. -->

A pipeline file says what flows where; the configuration says how this machine reaches the systems in it.
Three layers, each replacing single values of the one before:

1. the defaults below,
2. `config.yaml` in the working directory (`--config NAME` reads `NAME.yaml` instead),
3. environment variables: `STREAMLING__` and the path of the setting in capitals, joined by `__`.

```yaml
# config.yaml
application_id: orders
checkpoint_interval_sec: 10
state_backend:
  backend_type: Postgres
  postgres:
    host: db.internal
    sslmode: verify-full
```

```bash
STREAMLING__STATE_BACKEND__POSTGRES__PASSWORD=… streamling run pipeline.yaml
```

- Lists may be written as comma-separated text, in the file as well as in a variable.
- `<name>` is a key of your choice. In a variable it is written in capitals.
- `spark.conf` as one variable: `STREAMLING__SPARK__CONF='spark.executor.memory=4g,spark.executor.cores=2'`, or
  a JSON object. `STREAMLING__SPARK__CONF__SPARK_EXECUTOR_MEMORY=4g` works for settings spelt in small letters.
- A plugin's secrets: `plugin.<name>.<key>`, `STREAMLING__PLUGIN__<NAME>__<KEY>`.
- Relative paths start at the working directory.
- A setting nobody knows is reported with a suggestion and otherwise ignored. A bad value stops the start, and
  all of them are reported at once.
- Settings marked 🔒 never appear in logs, errors or the output of any command ([security model](security.md)).
- The file is trusted: it names plugins and jars whose code runs with `run`, `validate` and `plan`.
"""


def configuration_page() -> str:
    """The whole page."""
    groups: dict[str, list[Setting]] = {}
    for setting in settings(AppConfig):
        groups.setdefault(_title(setting), []).append(setting)
    tables = [f"## {title}\n\n{_table(group)}\n" for title, group in groups.items()]
    return "\n".join([_INTRODUCTION, *tables])


def _title(setting: Setting) -> str:
    return f"`{setting.path[0]}`" if len(setting.path) > 1 and not _is_plain_map(setting) else "General"


def _is_plain_map(setting: Setting) -> bool:
    return len(setting.path) == 2 and map_value(setting.info) is not None


def _table(group: list[Setting]) -> str:
    rows = ["| Setting | Variable | Takes | Default | Meaning |", "|---|---|---|---|---|"]
    rows += [f"| {' | '.join(_row(setting))} |" for setting in group]
    return "\n".join(rows)


def _row(setting: Setting) -> list[str]:
    info = setting.info
    variables = [setting.variable, *filter(None, [setting.foreign_variable])]
    lock = " 🔒" if "SecretStr" in str(info.annotation) else ""
    return [
        f"`{setting.name}`{lock}",
        "<br>".join(f"`{variable}`" for variable in variables),
        _takes(info).replace("|", "\\|"),
        _default(info),
        info.description or "",
    ]


def _takes(info: FieldInfo) -> str:
    return "anything" if map_value(info) is not None else expected(info)


def _default(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "shown_default" in extra:
        return str(extra["shown_default"])
    return _shown(info.default, is_duration="duration" in expected(info))


def _shown(value: Any, *, is_duration: bool) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value in ("", (), {}):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{format_duration(value) if is_duration else value}`"


if __name__ == "__main__":
    print(configuration_page(), end="")
