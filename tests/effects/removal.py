"""Runs the tests that prove settings (`By`) with the setting removed: each of them has to fail.

    pytest -n 0 -p tests.effects.removal [-m MARKERS] [TESTS]

Every test runs once as it is and has to pass, and once for every setting that it proves, while the setting has its default, whatever
the test says. In processes that the test starts, `removed/sitecustomize.py` does the same."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from _pytest.runner import runtestprotocol
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from streamling.pipeline import dead_letters
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.schema import ANY_NAME
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.effects import nodes
from tests.effects.proofs import ROOT, By

VARIABLE = "STREAMLING_TEST_REMOVED"
#: which share of the tests to run, such as 0/4
SHARE_VARIABLE = "STREAMLING_TEST_SHARE"


# ── a setting without an effect ─────────────────────────────────────────────────────────────────────────────


def remove(setting: str, patch: pytest.MonkeyPatch) -> None:
    """Give ``setting``, a key of `configuration.PROOFS` or of `nodes.PROOFS`, its default in every model that has it."""
    if setting.endswith(("errors", "errors.to")):  # read from the file, also if the options of the node are invalid
        patch.setattr(dead_letters, "target_in", lambda raw: None)
    found = dict.fromkeys(_places(setting))
    assert found, f"there is no field '{setting}'"
    for model, name in found:
        patch.setattr(model, name, property(_getter(model.model_fields[name], name)), raising=False)


def is_choice(setting: str) -> bool:
    """Return whether ``setting`` names the kind of what it is in: every kind has its own model, with one value."""
    annotations = [model.model_fields[name].annotation for model, name in _places(setting)]
    return all(get_origin(each) is Literal and len(get_args(each)) == 1 for each in annotations)


def _places(setting: str) -> Iterator[tuple[type[BaseModel], str]]:
    """Yield the models that declare ``setting``, with the name of its attribute."""
    words = setting.split()
    if setting in nodes.COMMON:
        for kind in NodeKind:
            for id in Registry.builtin().ids(kind):
                yield from _found([Registry.builtin().get(kind, id).options], setting.split("."))
    elif len(words) == 1:
        yield from _found([AppConfig], [part for part in setting.split(".") if part != ANY_NAME])
    else:
        kind, id, path = words
        yield from _found([Registry.builtin().get(NodeKind(kind), id).options], path.split("."))


def _found(models: list[type[BaseModel]], path: list[str]) -> Iterator[tuple[type[BaseModel], str]]:
    for model in models:
        for name, info in model.model_fields.items():
            if path[0] in (name, info.alias, str(info.validation_alias)):
                if len(path) > 1:
                    yield from _found(_models(info.annotation), path[1:])
                else:
                    yield next(each for each in model.__mro__ if name in vars(each).get("__annotations__", ())), name


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _getter(info: FieldInfo, name: str) -> Any:
    def get(model: BaseModel) -> Any:
        return _changed(vars(model)[name], info) if info.is_required() else info.get_default(call_default_factory=True)

    return get


def _changed(value: Any, info: FieldInfo) -> Any:
    """Another value than that of a field without a default."""
    if get_origin(info.annotation) is Literal:
        return next(choice for choice in get_args(info.annotation) if choice != value)
    match value:
        case str() if value.startswith("http"):
            return "http://127.0.0.1:9/changed"
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() | Path():
            return type(value)(f"{value}_changed")
        case SecretStr():
            return SecretStr("changed")
        case dict() | list() | tuple():
            return type(value)()
    return None


@contextmanager
def removed(setting: str) -> Iterator[None]:
    """Remove ``setting`` here and in the processes that are started meanwhile; without a name, none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, setting)
        places = f"{Path(__file__).parent / 'removed'}{os.pathsep}{ROOT}"
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (places, os.environ.get("PYTHONPATH")))))
        if setting:
            remove(setting, patch)
        yield


# ── the plugin of pytest ────────────────────────────────────────────────────────────────────────────────────

#: the settings that each test proves
PROVEN: dict[str, list[str]] = defaultdict(list)
#: settings without which no test has failed
UNPROVEN: dict[str, str] = {}


def pytest_configure() -> None:
    from tests.effects import configuration

    for proofs in (configuration.PROOFS, nodes.PROOFS, nodes.COMMON):
        for setting, proof in proofs.items():
            if isinstance(proof, By) and not is_choice(setting):
                PROVEN[proof.test].append(setting)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    number, _, shares = os.environ.get(SHARE_VARIABLE, "0/1").partition("/")
    mine = sorted(PROVEN)[int(number) :: int(shares)]
    others = [item for item in items if _test(item) not in mine]
    items[:] = [item for item in items if _test(item) in mine]
    config.hook.pytest_deselected(items=others)


def _test(item: pytest.Item) -> str:
    return f"{item.path.relative_to(ROOT)}::{getattr(item, 'originalname', item.name)}"


def pytest_runtest_protocol(item: pytest.Item) -> bool:
    """Run ``item`` as it is, then once without each setting that no other case of this test has proven yet."""
    elsewhere: Any = item.session  # keeps the fixtures of the session, and only these
    with removed(""):
        reports = runtestprotocol(item, log=False, nextitem=elsewhere)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    for setting in PROVEN[_test(item)]:
        if UNPROVEN.setdefault(setting, _test(item)):
            with removed(setting):
                reports = runtestprotocol(item, log=False, nextitem=elsewhere)
            if any(report.failed for report in reports):
                UNPROVEN[setting] = ""
    return True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if any(UNPROVEN.values()) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = {setting: test for setting, test in UNPROVEN.items() if test}
    terminalreporter.write_line(f"{len(UNPROVEN) - len(passed)} settings are proven by a test that fails without them")
    for setting, test in passed.items():
        terminalreporter.write_line(f"not proven: {setting}: {test} passes without it", red=True)
