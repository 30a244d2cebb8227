"""Every key of the configuration and every field of a node does something that can be observed, or warns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, SecretStr

from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.schema import ANY_NAME, Setting, expected, settings
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from tests.effects import configuration, nodes
from tests.effects.proofs import By, Observed

SETTINGS = {setting.name: setting for setting in settings(AppConfig)}
EFFECTIVE = [name for name, setting in SETTINGS.items() if setting.no_effect is None]
INEFFECTIVE = [name for name, setting in SETTINGS.items() if setting.no_effect is not None]


def fields() -> list[str]:
    """All fields of all node types, those inside of other fields too."""
    registry = Registry.builtin()
    found = []
    for kind in NodeKind:
        for id in registry.ids(kind):
            type_ = registry.get(kind, id)
            if type_ is not None:
                found += [f"{kind.value} {id} {path}" for path in paths(type_.options)]
    return found


def paths(model: type[BaseModel]) -> list[str]:
    """Fields of ``model`` as dotted paths."""
    found: dict[str, None] = {}
    for name, info in model.model_fields.items():
        here = info.alias or name
        found[here] = None
        for part in models(info.annotation):
            found |= {f"{here}.{path}": None for path in paths(part)}
    return list(found)


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this type consists of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models(part)]


def load(tmp_path: Path, values: dict[str, Any]) -> AppConfig:
    (tmp_path / "config.yaml").write_text(json.dumps(configuration.nested(values)))
    return load_config("config", cwd=tmp_path, env={"HOME": str(tmp_path)})


# ── the configuration ───────────────────────────────────────────────────────────────────────────────────────


def test_the_table_has_exactly_the_keys_that_do_something():
    assert sorted(configuration.PROOFS) == sorted(EFFECTIVE)


@pytest.mark.parametrize("name", EFFECTIVE)
def test_a_setting_does_something(tmp_path, name):
    proof = configuration.PROOFS[name]
    if isinstance(proof, By):
        assert proof.exists, f"there is no {proof.test}"
        return
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    without = proof.observe(load(tmp_path / "without", dict(proof.base)))
    changed = proof.observe(load(tmp_path / "with", {**proof.base, name: proof.value}))
    assert without != changed, f"{name} makes no difference"


def test_an_observation_of_another_setting_makes_no_difference(tmp_path):
    """The observations are sharp: they do not differ by chance."""
    for name, proof in configuration.PROOFS.items():
        if isinstance(proof, Observed) and proof.observe is not configuration.state_file:
            first = proof.observe(load(tmp_path, dict(proof.base)))
            again = proof.observe(load(tmp_path, {**proof.base, "checkpoint_timeout_sec": 77}))
            assert first == again, name


@pytest.mark.parametrize("name", INEFFECTIVE)
def test_a_setting_without_effect_warns_unless_it_says_the_default(tmp_path, caplog, name):
    setting = SETTINGS[name]
    path = name.replace(ANY_NAME, "out")
    if ANY_NAME not in setting.path and (default := setting.info.get_default(call_default_factory=True)) is not None:
        said = default.get_secret_value() if isinstance(default, SecretStr) else default
        load(tmp_path, {path: f"{said}s" if "duration" in expected(setting.info) else said})
        assert path not in caplog.text
    load(tmp_path, {path: another_value(setting)})
    assert f"{path} has no effect: {setting.no_effect}" in caplog.text


def another_value(setting: Setting) -> Any:
    """A value that is allowed and not the default."""
    default, takes = setting.info.get_default(call_default_factory=True), expected(setting.info)
    if ANY_NAME in setting.path:
        return "x"
    if get_origin(setting.info.annotation) is Literal:
        return next(choice for choice in get_args(setting.info.annotation) if choice != default)
    if isinstance(default, bool):
        return not default
    if "duration" in takes:
        return "7s"
    if isinstance(default, int | float) or "number" in takes:
        return int(default or 1) + 1
    return "http://localhost:1" if str(default).startswith("http") else "localhost"


# ── the nodes ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_has_exactly_the_fields_there_are():
    common = {*nodes.COMMON}
    own = [field for field in fields() if field.split()[2] not in common]
    assert common <= {field.split()[2] for field in fields()}
    assert sorted({*nodes.PROOFS, *nodes.WARNS}) == sorted(own)
    assert not nodes.PROOFS.keys() & nodes.WARNS.keys()


@pytest.mark.parametrize("field", [*nodes.PROOFS, *nodes.COMMON])
def test_a_field_does_something(field):
    proof = {**nodes.PROOFS, **nodes.COMMON}[field]
    assert proof.exists, f"there is no {proof.test}"


@pytest.mark.parametrize("field", nodes.WARNS)
def test_a_field_without_effect_warns(caplog, field):
    kind, id, name = field.split()
    assert (kind, id) == ("sink", "blackhole")
    sink = {"type": id, "from": "rows", name: nodes.WARNS[field]}
    pipeline(sink).with_config_defaults(AppConfig())
    assert f"blackhole sink 'out': `{name}` has no effect" in caplog.text


def pipeline(sink: dict[str, Any]):
    source = {"type": "file", "path": "x", "format": "csv", "primary_key": "id"}
    return parse_pipeline(
        json.dumps({"sources": {"rows": source}, "sinks": {"out": sink}}), registry=Registry.builtin()
    )
