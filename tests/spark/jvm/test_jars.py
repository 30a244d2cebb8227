from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm import jars as spark_packages
from streamling.spark.jvm.jars import (
    damaged_jars,
    fetch_spark_packages,
    fetched_spark_packages,
    known_spark_packages,
    locked_jars,
    spark_package_jars,
)
from streamling.spark.jvm.java import Java, find_java
from tests.harness.pipelines import new_run

AVRO = frozenset({"avro"})


@pytest.fixture(scope="module")
def java() -> Java:
    return find_java(os.environ)


class Repository:
    """A Maven repository in a folder, and an Ivy settings file that points to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "ivysettings.xml"
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(
            '<ivysettings><settings defaultResolver="here"/><resolvers>'
            f'<ibiblio name="here" m2compatible="true" usepoms="false" root="{folder.as_uri()}"/>'
            "</resolvers></ivysettings>"
        )

    def add(self, organisation: str, name: str, revision: str, content: bytes) -> dict[str, str]:
        """Publish a jar; returns its entry for a lock file."""
        jar = self.folder.joinpath(*organisation.split("."), name, revision, f"{name}-{revision}.jar")
        jar.parent.mkdir(parents=True)
        jar.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        return {"organisation": organisation, "name": name, "revision": revision, "sha256": sha256}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with the package ``two`` of two jars, the only one in the lock."""
    repository = Repository(tmp_path / "repository")
    entries = [repository.add("org.example", "first", "1.0", b"1"), repository.add("org.example", "next", "2.1", b"2")]
    monkeypatch.setattr(spark_packages, "locked_packages", lambda: {"two": entries})
    return repository


def test_the_lock_file_has_a_checksum_for_each_of_the_five_jars() -> None:
    jars = locked_jars(known_spark_packages())
    assert sorted(known_spark_packages()) == ["avro", "kafka"]
    assert len(jars) == 5
    assert all(len(jar.sha256) == 64 for jar in jars)


def test_an_unknown_package_is_reported_with_the_known_ones() -> None:
    with pytest.raises(StreamlingError, match="'mqtt', expected one of avro, kafka"):
        locked_jars({"mqtt"})


def test_without_packages_there_are_no_jars(tmp_path: Path, java: Java) -> None:
    assert fetch_spark_packages(tmp_path, frozenset(), java=java) == []
    assert list(tmp_path.iterdir()) == []


def test_jars_are_downloaded_once_with_progress(tmp_path: Path, java: Java, repository: Repository) -> None:
    seen: list[tuple[str, float]] = []
    cache = tmp_path / "cache"
    two = frozenset({"two"})
    jars = fetch_spark_packages(
        cache, two, java=java, ivy_settings=repository.settings, progress=lambda doing, done: seen.append((doing, done))
    )
    assert [jar.read_bytes() for jar in jars] == [b"1", b"2"]
    assert seen == [("downloading the Spark connectors", 0.0), ("downloaded first", 0.5), ("downloaded next", 1.0)]
    assert sorted(path.name for path in (cache / "connectors").iterdir()) == ["first-1.0.jar", "next-2.1.jar"]
    repository.settings.unlink()
    assert fetch_spark_packages(cache, two, java=java, ivy_settings=repository.settings) == jars


def test_a_jar_with_a_wrong_checksum_is_rejected_and_not_kept(tmp_path: Path, java: Java) -> None:
    repository = Repository(tmp_path / "repository")
    repository.add("org.apache.spark", "spark-avro_2.13", "4.1.1", b"not the real one")
    with pytest.raises(StreamlingError, match="is not the expected file"):
        fetch_spark_packages(tmp_path, AVRO, java=java, ivy_settings=repository.settings)
    assert list((tmp_path / "connectors").iterdir()) == []


def test_a_jar_that_cannot_be_downloaded_is_named_with_a_remedy(tmp_path: Path, java: Java) -> None:
    empty = Repository(tmp_path / "repository")
    with pytest.raises(StreamlingError, match=r"spark-avro_2\.13-4\.1\.1\.jar could not be downloaded") as error:
        fetch_spark_packages(tmp_path, AVRO, java=java, ivy_settings=empty.settings)
    assert error.value.retriable
    assert "spark.jars.ivySettings" in str(error.value.remedy)


def test_a_jar_damaged_in_the_cache_is_found(tmp_path: Path) -> None:
    (jar,) = spark_package_jars(tmp_path, AVRO)
    assert damaged_jars(tmp_path, AVRO) == []
    jar.parent.mkdir()
    jar.write_bytes(b"half")
    assert damaged_jars(tmp_path, AVRO) == [jar]


@pytest.mark.services
def test_the_locked_jars_can_be_downloaded(tmp_path: Path, java: Java) -> None:
    everything = frozenset(known_spark_packages())
    jars = fetch_spark_packages(tmp_path, everything, java=java)
    assert all(jar.is_file() for jar in jars)
    assert damaged_jars(tmp_path, everything) == []


def test_a_package_is_fetched_if_all_its_jars_exist(tmp_path: Path) -> None:
    jars = spark_package_jars(tmp_path, frozenset({"kafka"}))
    jars[0].parent.mkdir()
    for jar in jars[1:]:
        jar.write_bytes(b"")
    assert fetched_spark_packages(tmp_path) == frozenset()
    jars[0].write_bytes(b"")
    assert fetched_spark_packages(tmp_path) == {"kafka"}


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        ("file, path: data, format: csv, mode: {type: bounded}", "blackhole", set()),
        ("file, path: data, format: avro, mode: {type: bounded}", "blackhole", {"avro"}),
        (
            "file, path: data, format: csv, mode: {type: bounded}",
            "kafka, topic: t, data_format: json",
            {"avro", "kafka"},
        ),
        ("kafka, topic: t, data_format: json, schema: {id: int64}", "blackhole", {"avro", "kafka"}),
    ],
)
def test_every_node_declares_its_spark_packages(source: str, sink: str, expected: set[str]) -> None:
    text = f"sources: {{in: {{type: {source}, primary_key: id}}}}\nsinks: {{out: {{type: {sink}, from: in}}}}"
    assert new_run(text).node_declarations.spark_packages == expected


def test_a_pipeline_that_only_writes_to_kafka_downloads_its_package_before_spark_starts(tmp_path: Path) -> None:
    empty = Repository(tmp_path / "repository")
    (tmp_path / "data.csv").write_text("id\n1\n")
    (tmp_path / "pipeline.yaml").write_text(
        "sources: {in: {type: file, path: data.csv, format: csv, mode: {type: bounded}, primary_key: id}}\n"
        "sinks: {out: {type: kafka, topic: t, data_format: json, from: in}}"
    )
    (tmp_path / "config.yaml").write_text(f"spark: {{conf: {{spark.jars.ivySettings: '{empty.settings}'}}}}\n")
    environment = {**os.environ, "STREAMLING__CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "streamling", "run", "--dry-run", "pipeline.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "spark-sql-kafka-0-10" in done.stderr
