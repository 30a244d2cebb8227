"""Selects the engine that runs scripts."""

from __future__ import annotations

from streamling.transforms.script.config import ScriptSettings
from streamling.transforms.script.engine import Limits, ScriptEngine


def limits_of(config: ScriptSettings) -> Limits:
    return Limits(config.memory_limit_mb << 20, config.timeout_sec)


def engine_for(config: ScriptSettings) -> ScriptEngine:
    """Return the configured engine. Engines are expensive to import, so each is imported when it is used."""
    limits = limits_of(config)
    if config.engine == "v8":
        from streamling.transforms.script.v8 import V8

        return V8(limits)
    from streamling.transforms.script.quickjs import QuickJs

    return QuickJs(limits, config.runtime_wasm_file_path)
