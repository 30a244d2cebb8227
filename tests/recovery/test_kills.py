"""Kafka → SQL → Postgres, two topics → aggregate, and deduplication with a table, in one pipeline under load: stopped
with SIGTERM, then killed with -9 again and again. At the end everything is what the topics say."""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from streamling.engine.state.sqlite import SqliteState
from tests.connectors.kafka.source_driver import Topic
from tests.harness.commands import Command
from tests.recovery.scenarios import Accounts, Balances, FirstValues, Scenario

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

#: enough for every run of the suite; STREAMLING_TEST_KILLS=30 for a longer look
KILLS = int(os.environ.get("STREAMLING_TEST_KILLS", "1"))
SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261115"))
PLUGIN = Path(__file__).with_name("journal_plugin.py")


def test_everything_is_what_the_topics_say_after_many_kills(tmp_path, kafka, registry, postgres):
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    accounts = Accounts(Topic(kafka, registry, name="killed-accounts"), postgres.dsn, "killed")
    transfers = [Topic(kafka, registry, name=name) for name in ("killed-deposits", "killed-withdrawals")]
    balances = Balances(transfers, postgres.dsn, "killed_aggregate")
    values = Topic(kafka, registry, name="killed-values")
    firsts = FirstValues(values, postgres.dsn, "killed_tables", tmp_path / "out.jsonl")
    scenarios: list[Scenario] = [accounts, balances, firsts]

    variables = {**kafka.variables(), **registry.variables(), **postgres.variables()}
    variables["STREAMLING__PLUGIN__PATH"] = str(PLUGIN)
    # one stores positions so rarely that everything is replayed, the other so often that it cleans up meanwhile
    rarely, often = (
        Command(tmp_path, {**variables, "STREAMLING__CHECKPOINT_INTERVAL_SEC": seconds}) for seconds in ("60", "0.1")
    )
    sections = ("sources", "transforms", "sinks")
    parts = [scenario.nodes() for scenario in scenarios]
    often.write({name: {key: node for part in parts for key, node in part[name].items()} for name in sections})
    try:
        with ExitStack() as loads:
            for number, scenario in enumerate(scenarios):
                loads.enter_context(scenario.load(random.Random(SEED + 1 + number)))
            stop_under_load(often, accounts, tmp_path)
            for number in range(KILLS):
                pipeline = rarely if number % 2 else often
                kill_under_load(pipeline, scenarios, chance, in_the_middle=number < 2 or chance.random() < 0.75)
        wanted = [scenario.expected() for scenario in scenarios]
        often.start()
        often.eventually(lambda: [scenario.delivered() for scenario in scenarios] == wanted)
        often.drain()
    finally:
        rarely.end()
        often.end()
    assert [scenario.delivered() for scenario in scenarios] == wanted
    assert firsts.table() == {value for value, _ in firsts.expected()}


def stop_under_load(pipeline: Command, accounts: Accounts, folder: Path) -> None:
    """After a SIGTERM the table is what the topic says up to the stored position: no gap before it, nothing after."""
    pipeline.start()
    pipeline.eventually(lambda: bool(accounts.delivered()))
    pipeline.drain()
    with SqliteState("pipeline", folder / "state.db") as state:
        position = state.get(f"accounts:{accounts.topic.name}:0")
    assert position is not None
    assert accounts.delivered() == accounts.expected(position["offset"])


def kill_under_load(
    pipeline: Command, scenarios: list[Scenario], chance: random.Random, *, in_the_middle: bool
) -> None:
    """While rows are written, or during the start."""
    waited_for = [scenario for scenario in scenarios if scenario.delivers_at_once]
    before = [scenario.delivered() for scenario in waited_for]
    pipeline.start()
    if in_the_middle:
        pipeline.eventually(lambda: all(one.delivered() != old for one, old in zip(waited_for, before, strict=True)))
        time.sleep(chance.random() * 2)
    else:
        time.sleep(chance.random() * 5)
    pipeline.kill()
