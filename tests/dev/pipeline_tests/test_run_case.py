"""Cases that run: what is replaced, what is real, and what is compared."""

from __future__ import annotations

import pytest
from tests.dev.pipeline_tests.driver import PIPELINE, Suite, problems

pytestmark = pytest.mark.spark

SQL = PIPELINE.replace("price FROM orders WHERE price > 1", "{} FROM orders")


def passes(suite: Suite, cases: str, pipeline: str | None = None) -> None:
    results = suite.run(cases, pipeline)
    assert results
    assert {name: problems(result) for name, result in results.items()} == {name: [] for name in results}


def test_rows_pass_through_the_pipeline(suite):
    passes(
        suite,
        """
cases:
  rows of a sink and of nodes:
    input:
      orders:
        - {id: 1, item: tea, price: 1.50}
        - {id: 2, item: jam, price: 0.50}
        - {id: 1, item: tea, price: 1.50, _gs_op: d}
    expect:
      orders: {columns: subset, rows: [{id: 1}, {id: 2}, {id: 1, _gs_op: d}]}
      large: [{id: 1, item: TEA, price: 1.5}, {id: 1, item: TEA, price: 1.5, _gs_op: d}]
      table: {ordered: true, rows: [{id: 1, item: TEA, price: 1.5}, {id: 1, item: TEA, price: 1.5, _gs_op: d}]}
  a source that is not listed delivers nothing:
    expect: {table: []}
""",
    )


def test_sql_over_a_few_rows_needs_no_spark_job(suite, spark):
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    passes(
        suite,
        """
cases:
  two sinks and a table:
    tables: {seen: ["1"]}
    input:
      orders: {batches: [[{id: 1, item: tea, price: 2}, {id: 2, item: jam, price: 3}], [{id: 3, item: ink, price: 4}]]}
    expect:
      fresh: [{id: 2, item: jam}, {id: 3, item: ink}]
      table: [{id: 1, item: TEA, price: 2}, {id: 2, item: JAM, price: 3}, {id: 3, item: INK, price: 4}]
    expect_tables: {seen: ["1", "2", "3"]}
""",
        PIPELINE.replace(
            "sinks:",
            """\
  seen:
    type: dynamic_table
    backend_type: InMemory
    backend_entity_name: seen
    sql: SELECT CAST(id AS TEXT) FROM orders
  fresh:
    type: sql
    primary_key: id
    sql: SELECT id, item FROM orders WHERE NOT dynamic_table_check('seen', CAST(id AS TEXT))
sinks:
  other: {type: print, from: fresh}""",
        ),
    )
    assert scheduler.numTotalJobs() == before


def test_differences_are_reported_per_node(suite):
    results = suite.run(
        """
cases:
  wrong:
    input: {orders: [{id: 1, item: tea, price: 2}]}
    expect:
      large: [{id: 1, item: tea, price: 2}]
      table: []
  an error that does not occur:
    error: no such thing
"""
    )
    assert problems(results["wrong"]) == [
        "sql transform 'large'",
        "~ {id: 1, price: 2.00}",
        "~     item: expected tea, found TEA",
        "postgres sink 'table'",
        "  0 rows expected, 1 row found",
        "+ {id: 1, item: TEA, price: 2.00}",
    ]
    assert problems(results["an error that does not occur"])[1] == "- no such thing"


def test_the_clock_is_fixed_for_one_case_only(suite):
    passes(
        suite,
        """
schemas: {orders: {id: int64}}
cases:
  first:
    now: 2024-02-29T12:00:00Z
    input: {orders: [{id: 1}]}
    expect: {table: [{id: 1, at: 2024-02-29T12:00:00Z, day: 2024-02-29, hours: 1}]}
  second:
    now: 2031-01-01T00:00:00+01:00
    input: {orders: [{id: 1}]}
    expect: {table: [{id: 1, at: 2030-12-31T23:00:00Z, day: 2030-12-31, hours: 1}]}
  real time:
    input: {orders: [{id: 1}]}
    expect: {recent: {columns: subset, rows: [{id: 1}]}, table: {columns: subset, rows: [{id: 1}]}}
""",
        """\
sources:
  orders: {type: kafka, topic: orders, primary_key: id}
transforms:
  large:
    type: sql
    primary_key: id
    sql: SELECT id, now() AS at, current_date AS day, 1 AS hours FROM orders WHERE now() > TIMESTAMP '2020-01-01'
  recent:
    type: sql
    primary_key: id
    sql: SELECT id FROM large WHERE at > TIMESTAMP '2026-01-01 00:00:00' AND at >= now() - INTERVAL '1 hour'
sinks:
  table: {type: postgres, from: large, schema: shop, table: orders}
  other: {type: blackhole, from: recent}
""",
    )


def test_a_source_without_known_columns_needs_a_schema(suite):
    (result,) = suite.run(
        "cases: {one: {input: {orders: [{id: 1}]}}}",
        PIPELINE.replace('data_format: json\n    schema: {id: int64, item: string, price: "decimal(10,2)"}\n    ', ""),
    ).values()
    assert "the columns of a kafka source are not known without the system that it reads" in str(result.error)
    assert "schemas: {orders: {id: int64}}" in str(result.error)


def test_the_filter_of_a_kafka_source_applies(suite):
    passes(
        suite,
        """
cases:
  filtered:
    input: {orders: [{id: 1, item: a, price: 5}, {id: 2, item: b, price: 5}]}
    expect: {table: [{id: 2, item: B, price: 5}]}
""",
        PIPELINE.replace("primary_key: id\ntr", "primary_key: id\n    filter: id > 1\ntr"),
    )


def test_the_checks_of_a_sink_still_run(suite):
    (result,) = suite.run(
        "cases: {one: {input: {orders: [{id: 1, item: a, price: 5}]}}}",
        PIPELINE.replace("table: orders}", "table: orders, update_where: {version: '>'}}"),
    ).values()
    assert "`update_where` names the column 'version'" in str(result.error)
    assert result.is_invalid


def test_variables_and_secrets_come_from_the_test_file_alone(suite, monkeypatch):
    monkeypatch.setenv("TOPIC", "outside")
    pipeline = PIPELINE.replace("topic: orders", "topic: ${TOPIC}").replace("schema: shop", "schema: '${secret:area}'")
    results = suite.run("cases: {none: {}, own: {env: {TOPIC: t}, secrets: {area: s}, expect: {table: []}}}", pipeline)
    assert "the environment variable 'TOPIC' is not set" in str(results["none"].error)
    assert problems(results["own"]) == []


def test_names_that_are_not_in_the_pipeline_are_errors_in_the_test_file(suite):
    (result,) = suite.run(
        "cases:\n  one:\n    input: {order: []}\n    expect: {tables: []}\n    http: {large: []}"
    ).values()
    texts = [str(problem) for problem in result.error.problems]
    assert ["'order' is not a source" in texts[0], "did you mean 'orders'?" in texts[0]] == [True, True]
    assert ":4:13:" in texts[0]
    assert "did you mean 'table'?" in texts[1]
    assert "'large' is not a handler or webhook" in texts[2]


def test_an_input_value_of_the_wrong_type_is_an_error(suite):
    (result,) = suite.run("cases: {one: {input: {orders: [{id: x}]}}}").values()
    assert "kafka source 'orders': input row 1 has \"x\" for the column 'id', expected int64" in str(result.error)


def test_dead_letters(suite):
    passes(
        suite,
        """
cases:
  bad rows:
    input: {orders: [{id: 1, item: a, price: 5}, {id: 2, item: a, price: dear}]}
    expect:
      table: [{id: 1, item: A, price: 5}]
      bad: {columns: subset, rows: [{node: orders, payload: '{"id":2,"item":"a","price":"dear"}'}]}
""",
        PIPELINE.replace("    primary_key: id\ntr", "    primary_key: id\n    errors: {to: bad}\ntr")
        + "  bad: {type: postgres, schema: shop, table: bad}\n",
    )


GENERATED = """\
sources:
  orders:
    type: generate
    primary_key: id
    columns: {id: sequence, price: {generator: number, min: 1, max: 9, type: "decimal(10,2)"}, at: now}
    changes: {deletes: 0.1}
transforms:
  priced: {type: sql, primary_key: id, sql: "SELECT id, price * 2 AS price, at IS NULL AS no_time, _gs_op FROM orders"}
sinks:
  out: {type: print, from: priced}
"""


def test_rows_replace_those_of_a_generate_source_and_have_its_columns(suite):
    passes(
        suite,
        """
cases:
  one:
    input: {orders: [{id: 1, price: 1.25}, {id: 2, price: 2, _gs_op: d}]}
    expect:
      out:
        - {id: 1, price: 2.50, no_time: true, _gs_op: i}
        - {id: 2, price: 4, no_time: true, _gs_op: d}
""",
        GENERATED,
    )


TABLES = """\
sources:
  visits: {type: file, path: nowhere, format: csv, primary_key: id}
transforms:
  seen: {type: dynamic_table, backend_type: Postgres, backend_entity_name: seen, sql: SELECT user FROM visits}
  blocked: {type: dynamic_table, backend_type: Postgres, backend_entity_name: blocked}
  first:
    type: sql
    primary_key: id
    sql: |
      SELECT id, user FROM visits
      WHERE NOT dynamic_table_check('seen', user) AND NOT dynamic_table_check('blocked', user)
sinks:
  out: {type: print, from: first}
"""


def test_dynamic_tables_are_filled_and_compared_without_a_database(suite):
    passes(
        suite,
        """
cases:
  one:
    tables: {seen: [ann], blocked: [eve]}
    input: {visits: {batches: [[{id: 1, user: ann}, {id: 2, user: bob}], [{id: 3, user: bob}, {id: 4, user: eve}]]}}
    expect: {out: [{id: 2, user: bob}]}
    expect_tables: {seen: [ann, bob, eve], blocked: [eve]}
""",
        TABLES,
    )
    (result,) = suite.run("cases: {one: {input: {visits: [{id: 1, user: a}]}, expect_tables: {seen: [b]}}}").values()
    assert problems(result) == ["values of dynamic_table transform 'seen'", "- b", "+ a"]


CALLS = """\
sources:
  orders: {type: file, path: nowhere, format: csv, primary_key: id}
transforms:
  scored:
    type: handler
    from: orders
    primary_key: id
    url: https://scores.invalid/v1
    payload_version: 1
    schema_override: {score: float64}
    errors: {to: bad}
sinks:
  events: {type: webhook, from: scored, url: "https://hooks.invalid", one_row_per_request: true}
  bad: {type: print}
"""


def test_handlers_and_webhooks_call_stubbed_endpoints(suite):
    passes(
        suite,
        """
cases:
  answers by row:
    input: {orders: [{id: 1}, {id: 2}, {id: 3}]}
    http:
      scored:
        - {row: {id: 2}, response: [{id: 2, score: 1}, {id: 20, score: 2}]}
        - {row: {id: 3}}
        - {echo: true}
    expect: {events: [{id: 1, score: null}, {id: 2, score: 1}, {id: 20, score: 2}]}
    expect_requests:
      scored: [[{data: {id: 1}}, {data: {id: 2}}, {metadata: {op: i}}]]
      events: [{id: 20, score: 2}, {id: 2, score: 1}, {id: 1}]
  retries:
    input: {orders: [{id: 1}]}
    http: {scored: [{status: 503, times: 1}, {response: {id: 1, score: 3}}]}
    expect: {scored: [{id: 1, score: 3}]}
    expect_requests: {scored: [[{data: {id: 1}}], [{data: {id: 1}}]]}
  rejected rows:
    input: {orders: [{id: 1}, {id: 2}]}
    http: {scored: [{row: {id: 2}, status: 422}, {echo: true}]}
    expect: {scored: [{id: 1, score: null}], bad: {columns: subset, rows: [{node: scored}]}}
  an error:
    input: {orders: [{id: 1}]}
    http: {scored: [{status: 403}]}
    error: "returned 403"
""",
        CALLS,
    )


def test_endpoints_are_called_even_if_the_configuration_denies_private_addresses(suite):
    suite.write("config.yaml", "network: {deny_private: true}\n")
    passes(suite, "cases: {one: {input: {orders: [{id: 1}]}, http: {scored: [{}]}, expect: {events: []}}}", CALLS)


def test_a_request_without_an_answer_and_one_that_is_not_sent_are_reported(suite):
    results = suite.run(
        """
cases:
  no answer: {input: {orders: [{id: 7}]}}
  not sent:
    input: {orders: [{id: 1}]}
    http: {scored: [{echo: true}]}
    expect_requests: {events: [{id: 2}]}
""",
        CALLS,
    )
    assert problems(results["no answer"]) == [
        "requests of handler transform 'scored'",
        '+ {"id": 7, "_gs_op": "i"} has no answer in `http`',
    ]
    assert problems(results["not sent"]) == [
        "requests of webhook sink 'events'",
        '- {"id": 2}',
        '+ {"id": 1, "score": null, "_gs_op": "i"}',
    ]


def test_a_case_that_does_not_end_fails_after_its_timeout(suite):
    (result,) = suite.run(
        "cases: {one: {timeout: 1s, input: {orders: [{id: 1}]}, http: {scored: [{status: 500}]}}}", CALLS
    ).values()
    assert "1 s" in str(result.error)
