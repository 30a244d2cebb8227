"""The class that writes Spark's offset logs."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.spark
def test_files_are_written_without_permissions_and_checksums(spark: Any, tmp_path: Path) -> None:
    """Either would be another file or another process in every micro-batch."""
    log = tmp_path / "offsets"
    path, hadoop = spark._jvm.org.apache.hadoop.fs.Path, spark._jsparkSession.sessionState().newHadoopConf()
    assert hadoop.get("spark.sql.streaming.checkpointFileManagerClass") == "streamling.CheckpointFiles"
    hadoop.set("fs.permissions.umask-mode", "777")  # nobody could read a file whose permissions were set
    files = spark._jvm.streamling.CheckpointFiles(path(log.as_uri()), hadoop)
    files.mkdirs(path(log.as_uri()))
    for text in (b"old", b"new"):
        output = files.createAtomic(path((log / "0").as_uri()), True)
        output.write(text)
        output.close()
    assert [file.name for file in log.iterdir()] == ["0"]
    assert (log / "0").read_bytes() == b"new"
    assert stat.S_IMODE((log / "0").stat().st_mode) & stat.S_IRUSR
    assert [entry.getPath().getName() for entry in files.list(path(log.as_uri()))] == ["0"]
