from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from streamling.spark.jvm.archive import Archive, build_archive
from streamling.spark.jvm.command import JvmCommand
from streamling.spark.jvm.jars import spark_package_jars
from streamling.spark.jvm.java import Java, find_java
from tests.harness.script import run_python


@pytest.fixture
def command(tmp_path: Path) -> JvmCommand:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"a")
    return JvmCommand(Java(tmp_path / "java", "25.0.2", "PATH"), (jar,), ("-XX:+UseSerialGC",), ("-Xmx1g",))


def finished(archive: Archive) -> Archive:
    archive.prepare()
    Path(archive.record()[0].partition("=")[2]).write_bytes(b"classes")
    assert archive.publish()
    return archive


def test_the_name_depends_on_java_class_path_and_flags_but_not_on_tuning(tmp_path: Path, command: JvmCommand) -> None:
    first = Archive.of(command, tmp_path)
    assert Archive.of(command, tmp_path) == first
    assert Archive.of(replace(command, tuning=("-Xmx2g",)), tmp_path) == first
    others = [
        replace(command, flags=("-XX:+UseParallelGC",)),
        replace(command, class_path=(*command.class_path, tmp_path / "b.jar")),
        replace(command, java=replace(command.java, version="25.0.3")),
    ]
    assert len({Archive.of(other, tmp_path).path for other in others} - {first.path}) == 3


def test_a_replaced_jar_needs_another_archive(tmp_path: Path, command: JvmCommand) -> None:
    before = Archive.of(command, tmp_path)
    command.class_path[0].write_bytes(b"another")
    assert Archive.of(command, tmp_path).path != before.path


def test_another_build_of_our_own_jar_needs_another_archive(
    tmp_path: Path, command: JvmCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = command.class_path[0]
    monkeypatch.setattr("streamling.spark.jvm.archive.OWN_JAR", jar)
    before, time = Archive.of(command, tmp_path), jar.stat().st_mtime_ns
    jar.write_bytes(b"b")
    os.utime(jar, ns=(time, time))
    assert Archive.of(command, tmp_path).path != before.path


def test_each_java_version_gets_its_own_flags(tmp_path: Path, command: JvmCommand) -> None:
    new = finished(Archive.of(command, tmp_path))
    old = finished(Archive.of(replace(command, java=replace(command.java, version="17.0.15")), tmp_path))
    assert new.use()[0] == f"-XX:AOTCache={new.path}"
    assert new.record()[0].startswith("-XX:AOTCacheOutput=")
    assert old.use()[0] == f"-XX:SharedArchiveFile={old.path}"
    assert old.record()[0].startswith("-XX:ArchiveClassesAtExit=")


def test_without_an_archive_there_are_no_flags(tmp_path: Path, command: JvmCommand) -> None:
    assert Archive.of(command, tmp_path).use() == []


def test_an_unfinished_archive_is_not_used_and_removed_by_the_next_build(tmp_path: Path, command: JvmCommand) -> None:
    archive = Archive.of(command, tmp_path)
    archive.prepare()
    unfinished = Path(archive.record()[0].partition("=")[2])
    for name in (unfinished, unfinished.with_name(f"{unfinished.name}.config")):
        name.write_bytes(b"half")
    assert not archive.exists()
    archive.prepare()
    assert list(archive.path.parent.iterdir()) == []
    assert not archive.publish()


def test_a_failed_build_is_remembered_until_the_next_try(tmp_path: Path, command: JvmCommand) -> None:
    archive = Archive.of(command, tmp_path)
    assert archive.failure() is None
    archive.record_failure("no base archive")
    assert archive.failure() == "no base archive"
    archive.prepare()
    assert archive.failure() is None


def test_only_one_process_builds(tmp_path: Path, command: JvmCommand) -> None:
    archive = Archive.of(command, tmp_path)
    with archive.build_lock() as first, archive.build_lock() as second:
        assert (first, second) == (True, False)
    with archive.build_lock() as again:
        assert again


def test_a_build_waits_for_the_one_that_is_running_and_uses_its_archive(tmp_path: Path) -> None:
    archive = Archive.for_settings(cache_dir=tmp_path)
    seen = []
    with ExitStack() as other:
        other.enter_context(archive.build_lock())

        def progress(doing: str, done: float) -> None:
            seen.append(doing)
            finished(archive)
            other.close()

        assert build_archive(cache_dir=tmp_path, progress=progress) == archive.path
    assert seen == ["waiting for another process that is building it"]
    assert archive.path.read_bytes() == b"classes"


def test_the_least_recently_used_archives_are_deleted(tmp_path: Path, command: JvmCommand) -> None:
    archives = [Archive.of(replace(command, flags=(str(number),)), tmp_path) for number in range(5)]
    for age, archive in enumerate(archives[:4]):
        finished(archive)
        os.utime(archive.path, (1000 + age, 1000 + age))
    archives[0].use()
    finished(archives[4])
    assert [archive.exists() for archive in archives] == [True, False, True, True, True]


def test_downloaded_packages_are_part_of_every_archive(tmp_path: Path) -> None:
    before = Archive.for_settings(cache_dir=tmp_path)
    jars = spark_package_jars(tmp_path, frozenset({"avro"}))
    jars[0].parent.mkdir()
    for jar in jars:
        jar.write_bytes(b"")
    after = Archive.for_settings(cache_dir=tmp_path)
    assert before != after == Archive.for_settings(cache_dir=tmp_path, spark_packages=frozenset({"avro"}))


@pytest.mark.spark
@pytest.mark.soak
def test_an_invalid_archive_only_costs_time(tmp_path: Path) -> None:
    archive = Archive.for_settings(cache_dir=tmp_path)
    archive.prepare()
    archive.path.write_bytes(b"not an archive" * 10_000)
    outcome = run_python(
        f"""
        from pathlib import Path
        from streamling.spark.jvm.session import SparkDriver
        runtime = SparkDriver.start(master="local[2]", cache_dir=Path({str(tmp_path)!r}), quick=True)
        print(runtime.archive_missing(), runtime.session().range(3).count())
        runtime.stop()
        """,
        cwd=tmp_path,
    )
    assert (outcome.out, outcome.err) == ("False 3\n", "")


def start_strictly(cache_dir: Path, cwd: Path) -> None:
    """Start Spark with a flag that makes Java refuse to start without the archive."""
    strict = "-XX:AOTMode=on" if find_java(os.environ).major >= 25 else "-Xshare:on"
    outcome = run_python(
        f"""
        from pathlib import Path
        from streamling.spark.jvm.session import SparkDriver
        conf = {{"spark.driver.extraJavaOptions": {strict!r}, "spark.driver.memory": "1g"}}
        for quick in (True, False):
            runtime = SparkDriver.start(master="local[2]", conf=conf, cache_dir=Path({str(cache_dir)!r}), quick=quick)
            print(runtime.archive_missing(), runtime.session().range(3).count())
            runtime.stop()
        """,
        cwd=cwd,
    )
    assert (outcome.out, outcome.err) == ("False 3\nFalse 3\n", "")


@pytest.mark.spark
def test_java_accepts_the_archive_that_doctor_has_built(cache_dir: Path, tmp_path: Path) -> None:
    assert Archive.for_settings(cache_dir=cache_dir).path.exists(), "`streamling doctor --fix` builds it"
    start_strictly(cache_dir, tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_java_accepts_a_newly_built_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    seen: list[tuple[str, float]] = []

    def progress(doing: str, done: float) -> None:
        if deleted.exists():
            deleted.rmdir()  # a pipeline's folder may be deleted while the archive for the next one is built
        seen.append((doing, done))

    built = build_archive(cache_dir=tmp_path, progress=progress)
    assert Archive.for_settings(cache_dir=tmp_path).path == built
    assert [doing for doing, _ in seen][:2] == ["starting Spark", "training: csv"]
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    start_strictly(tmp_path, tmp_path)
