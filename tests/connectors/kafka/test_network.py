"""`network.deny_private` in the JVM: Kafka's clients learn addresses from brokers."""

from __future__ import annotations

import json
import random
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from streamling.dev.services.kafka import LocalKafka
from streamling.network.policy import NetworkPolicy
from tests.harness.script import run_python

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.slow]

_PROGRAM = """
import json
from pathlib import Path
from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.errors import StreamlingError
from streamling.spark.jvm.session import SparkDriver
from streamling.network.policy import NetworkPolicy

runtime = SparkDriver.start(
    master="local[1]", cache_dir=Path({cache!r}), quick=True, spark_packages=frozenset({{"kafka"}}),
    properties=NetworkPolicy(True, {allow!r}).java_properties(),
)
session = runtime.session()
jvm = session._jvm
denied = []
for address in {addresses!r}:
    try:
        found = jvm.java.net.InetAddress.getAllByName(address)
        jvm.streamling.kafka.NetworkPolicy.check(address, found)
    except Exception:
        denied.append(address)
admin = KafkaAdmin(session, {{"bootstrap.servers": "localhost:{port}"}})
try:
    brokers = str(admin.exists("no-such-topic"))
except StreamlingError as error:
    brokers = str(error)
print(json.dumps({{"denied": denied, "brokers": brokers}}))
runtime.stop()
"""


def in_a_jvm(kafka: LocalKafka, cache: Path, cwd: Path, allow: tuple[str, ...], addresses: list[str]) -> Any:
    """What a JVM with a policy says about addresses, and about a broker that is called `localhost` and names
    127.0.0.1."""
    port = kafka.brokers.rpartition(":")[2]
    text = _PROGRAM.format(cache=str(cache), allow=allow, addresses=addresses, port=port)
    outcome = run_python(text, cwd=cwd)
    assert outcome.status == 0, outcome.err
    return json.loads(outcome.out)


def _addresses() -> list[str]:
    made = random.Random(11)
    v4 = [str(IPv4Address(made.getrandbits(32))) for _ in range(150)]
    firsts = (0x0064, 0x2001, 0x2002, 0x2600, 0xFC00, 0xFE80, 0xFF02, 0)
    v6 = [str(IPv6Address((made.choice(firsts) << 112) | made.getrandbits(112))) for _ in range(100)]
    nat64 = [str(IPv6Address((0x64FF9B << 96) | made.getrandbits(32))) for _ in range(50)]
    named = ["10.1.2.3", "169.254.169.254", "::1", "1.1.1.1", "64:ff9b::a00:1", "64:ff9b::101:101", "2002:7f00:1::"]
    return [*v4, *v6, *nat64, *named]


def test_the_jvm_denies_the_addresses_that_python_denies_also_those_that_a_broker_names(kafka, cache_dir, tmp_path):
    policy, addresses = NetworkPolicy(True, ("localhost", "172.16.0.0/12")), _addresses()
    expected = []
    for address in addresses:
        try:
            policy.check(address, [address])
        except Exception:
            expected.append(address)
    assert 40 < len(expected) < 250
    found = in_a_jvm(kafka, cache_dir, tmp_path, policy.allow, addresses)
    assert found["denied"] == expected
    assert "do not respond" in found["brokers"]
    assert "network.deny_private is on" in found["brokers"]


def test_a_broker_that_names_an_allowed_address_is_read(kafka, cache_dir, tmp_path):
    found = in_a_jvm(kafka, cache_dir, tmp_path, ("*host", "127.0.0.0/8"), ["127.0.0.1", "10.0.0.1"])
    assert found == {"denied": ["10.0.0.1"], "brokers": "False"}
