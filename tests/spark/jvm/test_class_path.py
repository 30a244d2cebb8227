from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.class_path import OWN_JAR, class_path, spark_home, spark_jars, unsigned

#: the version of Spark 4.2.1
JANINO = "janino-3.1.9.jar"


def names(conf: dict[str, str]) -> list[str]:
    return [jar.name.split("_2.13")[0] for jar in class_path(conf)]


def test_jars_of_the_user_come_first_and_spark_packages_last() -> None:
    conf = {"spark.jars": "/a.jar, file:///b.jar,s3://bucket/c.jar", "spark.driver.extraClassPath": "/d.jar"}
    found = class_path(conf, [Path("/e.jar")])
    assert found[:3] == (Path("/d.jar"), Path("/a.jar"), Path("/b.jar"))
    assert found[-2:] == (OWN_JAR, Path("/e.jar"))  # ours replace a class of Kafka's client


def test_without_our_own_jar_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("streamling.spark.jvm.class_path.OWN_JAR", tmp_path / "streamling.jar")
    with pytest.raises(StreamlingError, match="streamling's Java classes are missing"):
        class_path({})


def test_jars_of_spark_have_a_fixed_order() -> None:
    jars = spark_jars(spark_home())
    assert jars == sorted(jars)
    assert any(jar.name.startswith("spark-sql_") for jar in jars)


def test_jars_that_no_pipeline_uses_are_omitted() -> None:
    found = names({})
    assert {"spark-sql", "spark-core", "spark-catalyst", "spark-kubernetes", "spark-yarn"} < set(found)
    assert any(name.startswith("hive-storage-api") for name in found)
    assert not [name for name in found if name.startswith(("spark-mllib", "breeze", "spark-hive", "hive-exec"))]


def test_a_hive_catalog_adds_hive() -> None:
    assert "spark-hive" in names({"spark.sql.catalogImplementation": "hive"})
    assert "spark-hive" not in names({"spark.sql.catalogImplementation": "in-memory"})


@pytest.mark.parametrize("name", ["janino", "commons-compiler"])
def test_a_signed_jar_is_replaced_by_the_same_without_signature(name: str, tmp_path: Path) -> None:
    [ours] = [jar for jar in unsigned(class_path({}), tmp_path) if jar.name.startswith(name)]
    [original] = [jar for jar in spark_jars(spark_home()) if jar.name.startswith(name)]
    assert ours.is_relative_to(tmp_path)
    with zipfile.ZipFile(original) as signed, zipfile.ZipFile(ours) as plain:
        classes = [entry for entry in signed.namelist() if entry.endswith(".class")]
        assert classes == [entry for entry in plain.namelist() if entry.endswith(".class")]
        assert signed.read(classes[0]) == plain.read(classes[0])
        assert not [entry for entry in plain.namelist() if entry.endswith((".SF", ".DSA", ".RSA"))]
        assert b"Digest" not in plain.read("META-INF/MANIFEST.MF")


def test_a_copy_is_made_once_and_is_identical_everywhere(tmp_path: Path) -> None:
    def copies(cache_dir: Path) -> dict[str, tuple[int, int]]:
        stats = {jar.name: jar.stat() for jar in unsigned(class_path({}), cache_dir) if jar.is_relative_to(cache_dir)}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}

    first, inode = copies(tmp_path / "a"), (tmp_path / "a" / "jars" / JANINO).stat().st_ino
    assert len(first) == 2
    assert first == copies(tmp_path / "a") == copies(tmp_path / "b")
    assert inode == (tmp_path / "a" / "jars" / JANINO).stat().st_ino
