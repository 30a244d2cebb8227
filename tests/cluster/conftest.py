"""One cluster for all tests of this folder: each start takes seconds and half a gigabyte."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.cluster import Cluster, running_cluster

#: Executors live for seconds here: they check no bytecode and have no second compiler. In their locale the upper case
#: of i is İ.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-Duser.language=tr -Duser.country=TR"
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two workers with one core each."""
    with running_cluster(JDK_JAVA_OPTIONS=JAVA_OPTIONS) as running:
        yield running
