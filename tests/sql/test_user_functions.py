"""SQL functions of plugins."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.harness import BatchListSource
from streamling.engine.run.run import PipelineRun
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.plugins import SqlFunction
from streamling.plugins.registry import Registry
from tests.harness.pipelines import finish, new_run
from tests.harness.plugins import load_plugins

FILE = '''
import pyarrow as pa
import pyarrow.compute as pc

from streamling.plugins import SqlFunction, plugin

SUFFIX = "!"


@plugin("shout")
class Shout(SqlFunction):
    """Louder, as often as said."""

    argument_types = (pa.string(), pa.int32())
    return_type = pa.string()

    def call(self, text, times):
        return pc.binary_join_element_wise(pc.utf8_upper(text), pc.binary_repeat(SUFFIX, times), "")


@plugin("upper")
class Upper(SqlFunction):
    """Wins over the built-in one."""

    argument_types = (pa.string(),)
    return_type = pa.string()

    def call(self, text):
        return pc.binary_join_element_wise("<", text, ">", "")


@plugin("liar")
class Liar(SqlFunction):
    argument_types = (pa.int64(),)
    return_type = pa.int64()

    def call(self, numbers):
        return pc.add(numbers, 1.5)


@plugin("short")
class Short(SqlFunction):
    argument_types = (pa.int64(),)
    return_type = pa.int64()

    def call(self, numbers):
        return numbers[:1]


@plugin("fails")
class Fails(SqlFunction):
    argument_types = (pa.int64(),)
    return_type = pa.int64()

    def call(self, numbers):
        raise ValueError("no such luck")
'''
ROWS = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64()), "name": ["ada", "bob", None]})


@pytest.fixture
def registry(tmp_path) -> Registry:
    (tmp_path / "functions.py").write_text(FILE)
    registry = load_plugins(Registry.builtin(), tmp_path / "functions.py")
    given = type("Given", (BatchListSource,), {"batches": [ROWS], "on_read": staticmethod(lambda number: None)})
    registry.register(NodeKind.SOURCE, "given", given)
    return registry


def prepared(sql: str, registry: Registry) -> PipelineRun:
    text = f"""
sources: {{rows: {{type: given, primary_key: id}}}}
transforms: {{out: {{type: sql, primary_key: id, sql: "{sql}"}}}}
sinks: {{kept: {{type: memory, from: out}}}}
"""
    return new_run(text, registry)


def rows(sql: str, registry: Registry, spark) -> list[dict]:
    run = prepared(sql, registry)
    run.analyse(spark)
    run.start()
    finish(run)
    return sorted(collected_rows(run, "kept").drop_columns(["_gs_op"]).to_pylist(), key=lambda row: row["id"])


@pytest.mark.spark
def test_it_is_called_like_any_other(registry, spark):
    found = rows("SELECT id, shout(name, id) AS s, shout('x', 2) AS x FROM rows WHERE id < 3", registry, spark)
    assert found == [{"id": 1, "s": "ADA!", "x": "X!!"}, {"id": 2, "s": "BOB!!", "x": "X!!"}]


@pytest.mark.spark
def test_it_overrides_a_built_in_one_and_works_in_any_expression(registry, spark):
    found = rows("SELECT id, length(UPPER(name)) AS n FROM rows WHERE upper(name) = '<bob>'", registry, spark)
    assert found == [{"id": 2, "n": 5}]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("liar(id)", "liar(): returned double, declared int64"),
        ("short(id)", "short(): returned 1 values for "),
        ("fails(id)", "fails()"),
    ],
)
def test_an_error_inside_is_reported_with_its_name(registry, spark, call, message):
    with pytest.raises(StreamlingError) as caught:
        rows(f"SELECT id, {call} AS x FROM rows", registry, spark)
    assert message in str(caught.value)
    assert str(caught.value).startswith("sql transform 'out': ")
    assert all("Traceback" not in cause for cause in caught.value.causes())


def message_of(sql: str, registry: Registry) -> str:
    run = prepared(sql, registry)
    run.resolve_sources()
    with pytest.raises(InvalidPipeline) as caught:
        run.check_without_spark()
    (problem,) = caught.value.problems
    return f"{problem.message} ({problem.remedy})"


def test_the_number_of_arguments_is_checked_without_spark(registry):
    message = message_of("SELECT id, shout(name) AS x FROM rows", registry)
    assert "shout() does not take 1 argument(s)" in message
    assert "write shout(string, int32)" in message


def test_a_name_that_is_nearly_right_is_suggested(registry):
    assert "did you mean shout()?" in message_of("SELECT id, shoutt(name, 1) AS x FROM rows", registry)


def test_the_type_of_the_result_is_known_without_spark(registry):
    message = message_of("SELECT id FROM rows WHERE shout(name, 1)", registry)
    assert "WHERE needs a condition that is true or false, not string" in message


@pytest.mark.parametrize("id", ["acme.shout", "Shout", "1st"])
def test_a_name_that_is_invalid_in_sql_is_rejected(id):
    class Fine(SqlFunction):
        argument_types, return_type = (pa.int64(),), pa.int64()

        def call(self, numbers):
            return pc.negate(numbers)

    with pytest.raises(StreamlingError, match="cannot be the name of a function in SQL"):
        Registry.builtin().register_function(id, Fine)
