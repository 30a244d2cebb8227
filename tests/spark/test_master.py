from __future__ import annotations

import pytest

from streamling.spark.master import is_local, local_cores, on_this_machine


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2,3]"])
def test_a_local_master_is_this_process(master: str) -> None:
    assert is_local(master)
    assert on_this_machine(master)


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"])
def test_all_other_masters_have_separate_processes(master: str) -> None:
    assert not is_local(master)
    assert on_this_machine(master) == master.startswith("local-cluster")


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[*]", 8), ("local[2,4]", 2), ("local[*,2]", 8)]
)
def test_a_local_master_has_a_number_of_cores(master: str, cores: int) -> None:
    assert local_cores(master, available=8) == cores
