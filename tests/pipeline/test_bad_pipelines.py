"""Every file in `tests/bad_pipelines` has one error, which is reported.

Comments at its top say what is expected:

    # expect: a part of the message      each must be in the output
    # at: 12:5                            line and column of the first problem; 0:0 for the file as a whole
    # problems: 2                         how many there are, 1 if not said
    # config: job_mode=true               a setting of the application
    # needs: spark                        only Spark's own analysis sees it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamling.engine.launch.launcher import Launcher
from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.document.loader import MAX_BYTES
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from tests.harness.pipelines import new_run

FOLDER = Path(__file__).parent.parent / "bad_pipelines"


@dataclass(frozen=True)
class BadFile:
    path: Path

    def said(self, key: str) -> list[str]:
        prefix = f"# {key}: "
        lines = self.path.read_text().splitlines()
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]

    @property
    def environment(self) -> dict[str, str]:
        pairs = (setting.split("=", 1) for setting in self.said("config"))
        return {f"STREAMLING__{key.upper().replace('.', '__')}": value for key, value in pairs}

    @property
    def needs_spark(self) -> bool:
        return self.said("needs") == ["spark"]


def bad_files(*, needs_spark: bool) -> Iterator[Any]:
    for path in sorted(FOLDER.rglob("*.yaml")):
        file = BadFile(path)
        if file.needs_spark is needs_spark:
            yield pytest.param(file, id=path.relative_to(FOLDER).with_suffix("").as_posix())


def problems_in(file: BadFile, session: Any = None) -> list[Problem]:
    """The problems reported for ``file``; with a session, Spark analyses it, too."""
    try:
        launcher = Launcher.load(env=file.environment, cwd=file.path.parent)
        pipeline = launcher.pipeline(str(file.path))
        run = new_run(pipeline, launcher.registry, config=launcher.config)
        run.check_without_spark()
        if session is not None:
            run.analyse(session)
    except InvalidPipeline as invalid:
        return invalid.problems
    return []


def check(file: BadFile, problems: list[Problem]) -> None:
    output = "\n".join(map(str, problems))
    expected = file.said("expect")
    assert expected, "the file does not say what is expected"
    assert [part for part in expected if part not in output] == [], output
    assert len(problems) == int((file.said("problems") or ["1"])[0]), output
    first = f"{problems[0].line}:{problems[0].column}"
    assert file.said("at") in ([first], [] if file.needs_spark else [first]), output
    assert "pydantic" not in output
    assert "<Token" not in output
    assert "Traceback" not in output


@pytest.mark.parametrize("file", list(bad_files(needs_spark=False)))
def test_bad_pipeline_is_explained(file: BadFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.path.parent)
    check(file, problems_in(file))


@pytest.mark.spark
@pytest.mark.parametrize("file", list(bad_files(needs_spark=True)))
def test_bad_sql_that_only_spark_sees_is_explained(file: BadFile, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.path.parent)
    check(file, problems_in(file, spark))


def test_secrets_of_a_bad_file_are_not_shown() -> None:
    shown = [
        str(problem)
        for name in ("handler_url", "header_value_number", "header_line_break")
        for problem in problems_in(BadFile(FOLDER / f"{name}.yaml"))
    ]
    assert not [text for text in shown if "hunter2" in text or "12345" in text or "topsecret" in text]


# ── files too big, too deep or too strange to keep ───────────────────────────────────────────────────────────


def only_problem(text: str | bytes) -> Problem:
    with pytest.raises(InvalidPipeline) as raised:
        parse_pipeline(text, registry=Registry.builtin())
    (problem,) = raised.value.problems
    return problem


def test_too_large_a_file_is_refused_before_it_is_read() -> None:
    assert "larger than 4 MiB" in only_problem(b"#" * (MAX_BYTES + 1)).message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_endless_nesting_is_refused(opening: str) -> None:
    problem = only_problem("sources: " + opening * 50_000 if opening in "[{a: " else opening * 50_000)
    assert "nested deeper than 64 levels" in problem.message or "plain text" in problem.message


def test_too_many_values_are_refused() -> None:
    assert "more than 100000 values" in only_problem("sources: [" + "1," * 100_001 + "]").message


def test_nesting_hidden_behind_aliases_is_refused() -> None:
    levels = "".join(f"a{n}: &a{n} [[[[[[[[[[*a{n - 1}]]]]]]]]]]\n" for n in range(1, 8))
    assert "after resolving aliases" in only_problem(f"a0: &a0 [x]\n{levels}").message


@pytest.mark.parametrize(
    ("data", "message", "place"),
    [
        (b"sources:\n  a\xff: 1\n", "not UTF-8 text: byte 0xff", (2, 4)),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8 text", (1, 1)),
        (b"sources:\n  a: \x00\n", "the character U+0000 is not allowed", (2, 6)),
        ("sources:\n  a: \x07\n", "the character U+0007 is not allowed", (2, 6)),
    ],
)
def test_binary_data_is_refused(data: str | bytes, message: str, place: tuple[int, int]) -> None:
    problem = only_problem(data)
    assert message in problem.message
    assert (problem.line, problem.column) == place


def test_missing_file_is_explained(tmp_path: Path) -> None:
    (problem,) = problems_in(BadFile(_write(tmp_path / "there.yaml", "x: 1")))[:1]
    assert "section 'sources' is missing" in problem.message
    launcher = Launcher.load(env={}, cwd=tmp_path)
    with pytest.raises(InvalidPipeline, match="cannot be read: No such file or directory"):
        launcher.pipeline(str(tmp_path / "absent.yaml"))


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
