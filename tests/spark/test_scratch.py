from __future__ import annotations

import os
import subprocess
from pathlib import Path

from streamling.spark.scratch import Scratch, sweep
from tests.harness.script import run_python


def test_remove_deletes_everything(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    (scratch.path / "deep" / "er").mkdir(parents=True)
    scratch.remove()
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_has_access(tmp_path: Path) -> None:
    assert Scratch(tmp_path).path.stat().st_mode & 0o777 == 0o700


def test_a_folder_in_use_is_not_swept(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    assert sweep(tmp_path) == []
    assert scratch.path.is_dir()


def test_the_folder_of_a_killed_process_is_swept(tmp_path: Path) -> None:
    killed = run_python(
        f"""
        import os, signal
        from pathlib import Path
        from streamling.spark.scratch import Scratch
        print(Scratch(Path({str(tmp_path)!r})).path, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        cwd=tmp_path,
    )
    left = Path(killed.out.strip())
    assert left.is_dir()
    assert sweep(tmp_path) == [left]
    assert not left.exists()


def test_a_folder_is_in_use_as_long_as_a_child_with_its_lock_lives(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[scratch.lock]) as child:
        os.close(scratch.lock)  # as a kill would
        assert sweep(tmp_path) == []
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
    assert sweep(tmp_path) == [scratch.path]


def test_foreign_folders_are_not_swept(tmp_path: Path) -> None:
    (tmp_path / "streamling-spark-of-somebody").mkdir()
    (tmp_path / "other").mkdir()
    assert sweep(tmp_path) == []
