from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.class_path import OWN_CLASSES
from streamling.spark.jvm.jars import fetch_spark_packages, fetched_spark_packages, spark_package_jars
from streamling.spark.jvm.java import Java, find_java
from streamling.spark.jvm.java_classes import classes_jar, compile_classes

KAFKA = frozenset({"kafka"})


@pytest.fixture(scope="module")
def java() -> Java:
    return find_java(os.environ)


@pytest.mark.slow
def test_classes_are_compiled_once_and_always_into_the_same_jar(tmp_path: Path, cache_dir: Path, java: Java) -> None:
    """A start-up archive depends on the content and time of each jar: compiling again must not invalidate it."""
    fetched = fetch_spark_packages(cache_dir, KAFKA, java=java)
    kafka = [jar for jar in fetched if not jar.name.startswith(OWN_CLASSES)]
    jars = [compile_classes(tmp_path / name, java, class_path=kafka) for name in ("one", "two")]
    assert jars[0].read_bytes() == jars[1].read_bytes()
    assert jars[0].stat().st_mtime_ns == jars[1].stat().st_mtime_ns
    assert "streamling/JsonDecoder.class" in zipfile.ZipFile(jars[0]).namelist()
    assert list((tmp_path / "one").iterdir()) == [jars[0]]
    without_java = replace(java, home=tmp_path / "nowhere")
    assert compile_classes(tmp_path / "one", without_java) == jars[0]


def test_a_changed_source_is_another_jar(tmp_path: Path) -> None:
    source = tmp_path / "A.java"
    source.write_text("final class A {}")
    before = classes_jar(tmp_path, [source])
    source.write_text("final class A { int x; }")
    assert classes_jar(tmp_path, [source]) != before


@pytest.mark.slow
def test_the_error_contains_the_output_of_the_compiler(tmp_path: Path, java: Java) -> None:
    source = tmp_path / "A.java"
    source.write_text("final class A { int x = nothing; }")
    with pytest.raises(StreamlingError, match="Java classes could not be compiled") as error:
        compile_classes(tmp_path / "cache", java, [source])
    assert "nothing" in str(error.value.__cause__ or error.value)
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_java_there_is_an_error(tmp_path: Path, java: Java) -> None:
    with pytest.raises(StreamlingError, match="Java classes could not be compiled"):
        compile_classes(tmp_path, replace(java, home=tmp_path / "nowhere"))


def test_the_kafka_package_is_incomplete_without_them(tmp_path: Path) -> None:
    jars = spark_package_jars(tmp_path, KAFKA)
    assert classes_jar(tmp_path / "connectors") in jars
    (tmp_path / "connectors").mkdir()
    for jar in jars:
        jar.write_bytes(b"")
    assert fetched_spark_packages(tmp_path) == KAFKA
    classes_jar(tmp_path / "connectors").unlink()
    assert fetched_spark_packages(tmp_path) == frozenset()
