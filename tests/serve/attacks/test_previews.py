"""Two operators of one namespace try to take all previews that a server runs at a time."""

from __future__ import annotations

import json

import pytest

from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.conftest import TOKENS
from tests.serve.definitions import csv_to_print
from tests.serve.server import Client

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_LONG, _SHORT = "/preview?duration_seconds=600&rows=1000", "/preview?duration_seconds=1&rows=1"


def test_two_operators_of_one_namespace_do_not_keep_another_one_from_previews(evil: Attacker, shop: Client):
    body = {"definition": csv_to_print(evil.server.folder / "orders")}  # waits for more files
    accomplice = Client(evil.server.address, TOKENS["accomplice"])
    with evil.client.stream(_LONG, body) as first:
        assert first.status == 200
        with accomplice.stream(_LONG, body) as second:
            assert second.status == 503
            error = json.loads(second.read())["error"]
        assert error["message"] == "a preview of 'evil' is running, which is the limit for its namespaces"
        assert error["remedy"].startswith("try again in ")
        with shop.stream(_SHORT, body) as other:
            assert other.status == 200
            assert b"event: nodes" in other.read()
