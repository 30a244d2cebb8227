from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.model import Pipeline
from streamling.pipeline.parse import parse_pipeline
from streamling.pipeline.variables import Variables
from tests.pipeline.plugins import registry_with_plugins

ENV = {
    "TOPIC": "orders",
    "SIZE": "500",
    "EMPTY": "",
    "DIGITS": "0042",
    "ADDRESS": "https://example.com",
    "SOURCE": "s",
    "KIND": "blackhole",
}
SECRETS = {"api_key": SecretStr("k3y-of-the-house")}

PIPELINE = """\
sources:
  s:
    type: kafka
    topic: {topic}
    primary_key: id
    batch_size: {size}
sinks:
  out:
    type: webhook
    from: s
    url: {url}
    headers: {{X-Key: {key}}}
"""


def parse(text: str) -> Pipeline:
    return parse_pipeline(text, registry=registry_with_plugins(), variables=Variables(ENV, SECRETS))


def filled(**values: str) -> str:
    plain = {"topic": "t", "size": "1", "url": "http://localhost", "key": "k"}
    return PIPELINE.format(**{**plain, **values})


def problem(text: str) -> Problem:
    with pytest.raises(InvalidPipeline) as raised:
        parse(text)
    assert len(raised.value.problems) == 1, raised.value
    return raised.value.problems[0]


def source_option(field: str, **values: str) -> Any:
    return getattr(parse(filled(**values))["s"].options, field)


@pytest.mark.parametrize(
    ("written", "topic"),
    [
        ("${TOPIC}", "orders"),
        ("raw.${TOPIC}.v${SIZE}", "raw.orders.v500"),
        ('"${TOPIC}"', "orders"),
        ("${MISSING:-fallback}", "fallback"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${TOPIC:-fallback}", "orders"),
        ("x${EMPTY}", "x"),
        ("x${MISSING:-}", "x"),
        ("${MISSING:-a:-b}", "a:-b"),
        ("$${TOPIC}", "${TOPIC}"),
        ("$$${TOPIC}", "$${TOPIC}"),
        ("$TOPIC", "$TOPIC"),
        ("${DIGITS}", "0042"),
    ],
)
def test_references_in_text(written: str, topic: str) -> None:
    assert source_option("topic", topic=written) == topic


def test_an_unquoted_reference_is_a_number() -> None:
    assert source_option("batch_size", size="${SIZE}") == 500
    assert source_option("batch_size", size="${MISSING:-7}") == 7


def test_a_quoted_reference_stays_text() -> None:
    assert "is '500' where a whole number is expected" in problem(filled(size='"${SIZE}"')).message


def test_secrets_come_from_the_configuration_under_any_spelling_of_their_name() -> None:
    headers = parse(filled(key="'Bearer ${secret:API-Key}'"))["out"].options.headers  # type: ignore[attr-defined]
    assert headers["X-Key"].get_secret_value() == "Bearer k3y-of-the-house"


def test_the_upstream_may_be_a_variable() -> None:
    text = (
        "sources:\n  s: {type: kafka, topic: t, primary_key: id}\nsinks:\n  out: {type: blackhole, from: '${SOURCE}'}\n"
    )
    assert parse(text)["out"].upstreams == ("s",)


def test_the_name_of_the_pipeline_may_hold_variables() -> None:
    assert parse("name: shop-${TOPIC}-${MISSING:-dev}\n" + filled()).name == "shop-orders-dev"
    found = problem("name: shop-${MISSING}\n" + filled())
    assert (found.message, found.line, found.column) == ("the environment variable 'MISSING' is not set", 1, 7)


def test_the_type_is_not_a_variable() -> None:
    text = "sources:\n  s: {type: kafka, topic: t, primary_key: id}\nsinks:\n  out: {type: '${KIND}', from: s}\n"
    assert "there is no sink type '${KIND}'" in problem(text).message


@pytest.mark.parametrize(
    ("written", "message", "remedy"),
    [
        ("${MISSING}", "the environment variable 'MISSING' is not set", "write ${MISSING:-default}"),
        ("${secret:nope}", "the secret 'nope' is not configured", "STREAMLING__SECRETS__NOPE"),
        ("${secret:api_kye}", "the secret 'api_kye' is not configured", "did you mean 'api_key'?"),
        ("a${TOPIC", "has no closing brace", "write $${"),
        ("${not a name}", "is not the name of a variable", "write $${"),
        ("${}", "is not the name of a variable", "write $${"),
    ],
)
def test_a_reference_without_a_value_is_an_error_with_its_place(written: str, message: str, remedy: str) -> None:
    found = problem(filled(topic=f"'{written}'"))
    assert message in found.message
    assert remedy in str(found.remedy)
    assert (found.line, found.column) == (4, 13)


def test_programs_keep_what_looks_like_a_variable() -> None:
    text = """\
sources:
  s: {type: kafka, topic: t, primary_key: id, filter: "name <> '${TOPIC}'"}
transforms:
  q: {type: sql, primary_key: id, sql: "SELECT '${TOPIC}' AS t, id FROM s"}
  j:
    type: script
    primary_key: id
    from: q
    language: js
    script: |
      function process(row) { return {id: `${row.id}`} }
sinks:
  out: {type: blackhole, from: j}
"""
    pipeline = parse(text)
    assert pipeline["s"].options.filter == "name <> '${TOPIC}'"  # type: ignore[attr-defined]
    assert pipeline["q"].options.sql == "SELECT '${TOPIC}' AS t, id FROM s"  # type: ignore[attr-defined]
    assert "`${row.id}`" in pipeline["j"].options.script  # type: ignore[attr-defined]


def test_filters_inside_a_hybrid_source_are_programs() -> None:
    text = """\
sources:
  s:
    type: hybrid
    primary_key: id
    bounded_sources: [{source_type: clickhouse, table_name: "${TOPIC}", filter: "a = '${TOPIC}'"}]
    unbounded_source: {source_type: kafka, topic: "${TOPIC}", filter: "a = '${TOPIC}'"}
sinks:
  out: {type: blackhole, from: s}
"""
    options: Any = parse(text)["s"].options
    assert options.bounded_sources[0].table_name == "orders"
    assert options.bounded_sources[0].filter == "a = '${TOPIC}'"
    assert (options.unbounded_source.topic, options.unbounded_source.filter) == ("orders", "a = '${TOPIC}'")
