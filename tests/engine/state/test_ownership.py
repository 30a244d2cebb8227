from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamling.engine.state.ownership import lock_state
from streamling.errors import StreamlingError

HOLD = """
import sys
from pathlib import Path
from streamling.engine.state.ownership import lock_state
with lock_state(Path(sys.argv[1]), sys.argv[2]):
    print("owned", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def hold(database: Path, identity: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(database), identity], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "owned\n"
    return process


def test_a_second_process_is_rejected_with_the_name_of_the_first(database: Path) -> None:
    with hold(database, "orders") as other:
        with pytest.raises(StreamlingError) as raised, lock_state(database, "orders"):
            pass
        other.kill()
    assert str(raised.value).startswith(f"the state of 'orders' in {database} is in use by process {other.pid} (")
    assert not raised.value.internal
    with lock_state(database, "orders"):  # the lock of a killed process has been released
        pass


def test_another_pipeline_has_another_lock(database: Path) -> None:
    with hold(database, "orders") as other, lock_state(database, "payments/daily"):
        other.kill()


def test_nothing_is_left_behind(database: Path) -> None:
    with lock_state(database, "orders"):
        assert [path.name for path in database.parent.iterdir()] == ["state.db-orders.lock"]
    assert list(database.parent.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_ordinary_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StreamlingError, match=r"cannot be locked: .*/file is not a folder") as raised,
        lock_state(tmp_path / "file" / "s.db", "a"),
    ):
        pass
    assert "database_path" in str(raised.value.remedy)


def test_the_lock_is_not_inherited(database: Path) -> None:
    with lock_state(database, "orders"):
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, close_fds=False
        )
    try:
        with lock_state(database, "orders"):
            assert os.path.exists(database.with_name("state.db-orders.lock"))
    finally:
        child.communicate()
