"""Log lines: text for people, JSON for machines, only ours."""

import json
import logging

import pytest

from streamling.observe.telemetry.logging import (
    RunScope,
    captured_warnings,
    configure_logging,
    current_run,
    logs_are_json,
)


@pytest.fixture
def logs(capsys):
    """Returns the output on standard error so far; the logger is restored afterwards."""
    logger = logging.getLogger("streamling")
    before = logger.handlers, logger.level, logger.propagate
    yield lambda: capsys.readouterr().err
    logger.handlers, logger.level, logger.propagate = before


def test_text_has_time_level_node_and_message(logs):
    configure_logging("text", "info")
    logging.getLogger("streamling.node.orders").warning("slow %s", "disk")
    assert logs()[12:] == " WARN  orders: slow disk\n"
    assert not logs_are_json()


def test_json_is_one_object_per_line_even_for_a_trace(logs):
    configure_logging("json", "info")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("streamling.node.orders").exception("bad\nrow")
    (line,) = logs().splitlines()
    record = json.loads(line)
    assert (record["level"], record["node"], record["message"]) == ("ERROR", "orders", "bad\nrow")
    assert "ValueError" in record["trace"]
    assert logs_are_json()


def test_json_carries_pipeline_node_and_epoch(logs):
    configure_logging("json", "info")
    epochs = iter([None, 7])
    token = current_run.set(RunScope("shop", lambda: next(epochs)))
    try:
        for message in ("before the first checkpoint", "later"):
            logging.getLogger("streamling.node.orders").info(message)
    finally:
        current_run.reset(token)
    first, second = (json.loads(line) for line in logs().splitlines())
    assert (first["pipeline"], first["node"], first.get("epoch")) == ("shop", "orders", None)
    assert (second["pipeline"], second["node"], second["epoch"]) == ("shop", "orders", 7)


@pytest.mark.parametrize(
    ("setting", "shown"),
    [("info", ["info", "error"]), ("error", ["error"]), ("warn,streamling=debug", ["debug", "info", "error"]),
     ("rdkafka=debug", ["info", "error"]), ("off", [])],
)  # fmt: skip
def test_the_level_accepts_the_rust_log_syntax(logs, setting, shown):
    configure_logging("text", setting)
    logger = logging.getLogger("streamling.x")
    for level in ("debug", "info", "error"):
        getattr(logger, level)(level)
    assert [line.split()[-1] for line in logs().splitlines()] == shown


def test_warnings_can_be_collected(logs):
    configure_logging("text", "warn")
    with captured_warnings() as warnings:
        logging.getLogger("streamling.x").warning("once")
        logging.getLogger("streamling.x").error("not this")
    logging.getLogger("streamling.x").warning("later")
    assert warnings == ["once"]
