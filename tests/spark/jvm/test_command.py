from __future__ import annotations

from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.command import heap_mb, jvm_command
from streamling.spark.jvm.java import Java

JAVA_17 = Java(Path("/java"), "17.0.15", "PATH")
JAVA_25 = Java(Path("/java"), "25.0.2", "PATH")


@pytest.mark.parametrize(
    ("text", "mib"), [("2g", 2048), ("1024m", 1024), ("768", 768), ("1G", 1024), ("512mb", 512), ("1048576k", 1024)]
)
def test_the_heap_is_written_as_spark_writes_sizes(text: str, mib: int) -> None:
    assert heap_mb({"spark.driver.memory": text}) == mib


@pytest.mark.parametrize("text", ["", "much", "-1g", "1.5g", "0", "10b"])
def test_an_invalid_heap_size_is_a_user_error(text: str) -> None:
    with pytest.raises(StreamlingError, match=r"spark\.driver\.memory") as error:
        heap_mb({"spark.driver.memory": text})
    assert not error.value.internal


def test_the_heap_is_small_by_default() -> None:
    assert "-Xmx512m" in jvm_command(JAVA_25, {}, ()).line()


@pytest.mark.parametrize(("heap", "most"), [("512m", 2**25), ("8g", 2**29), ("64g", 2**31 - 9)])
def test_an_avro_message_cannot_claim_the_heap(heap: str, most: int) -> None:
    tuning = jvm_command(JAVA_25, {"spark.driver.memory": heap}, ()).tuning
    assert f"-Dorg.apache.avro.limits.string.maxLength={most}" in tuning
    assert f"-Dorg.apache.avro.limits.bytes.maxLength={most}" in tuning


def test_never_g1() -> None:
    assert "-XX:+UseSerialGC" in jvm_command(JAVA_25, {}, ()).flags


def test_flags_that_an_older_java_does_not_know_are_left_out() -> None:
    assert "--sun-misc-unsafe-memory-access=allow" in jvm_command(JAVA_25, {}, ()).flags
    assert not any("unsafe-memory" in flag or "native-access" in flag for flag in jvm_command(JAVA_17, {}, ()).flags)


def test_quick_stops_at_the_first_compiler() -> None:
    assert "-XX:TieredStopAtLevel=1" in jvm_command(JAVA_25, {}, (), quick=True).tuning
    assert not any("Tier4" in flag for flag in jvm_command(JAVA_25, {}, (), quick=True).tuning)
    assert "-XX:TieredStopAtLevel=1" not in jvm_command(JAVA_25, {}, ()).tuning


def test_generated_code_is_compiled_up_to_the_limit_of_spark() -> None:
    """Otherwise Java interprets methods of more than 8 000 bytes."""
    assert "-XX:-DontCompileHugeMethods" in jvm_command(JAVA_25, {}, ()).tuning


def test_extra_flags_come_after_ours_so_that_they_win() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Xmx1g '-Dsaid=two words'"}
    line = jvm_command(JAVA_25, conf, ()).line(["-Dlast=1"])
    assert line.index("-Xmx512m") < line.index("-Xmx1g") < line.index("-Dsaid=two words") < line.index("-Dlast=1")


def test_spark_jars_packages_is_rejected_because_nothing_resolves_it() -> None:
    with pytest.raises(StreamlingError, match=r"spark\.jars\.packages"):
        jvm_command(JAVA_25, {"spark.jars.packages": "a:b:1"}, ())
