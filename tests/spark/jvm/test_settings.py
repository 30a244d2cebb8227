from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamling.spark.jvm.environment import jvm_environment
from streamling.spark.jvm.settings import spark_settings

SCRATCH = Path("/scratch")


def test_settings_of_the_user_take_precedence() -> None:
    settings = spark_settings("local[2]", {"spark.sql.session.timeZone": "Europe/Paris", "spark.x": "1"}, SCRATCH)
    assert settings["spark.sql.session.timeZone"] == "Europe/Paris"
    assert settings["spark.x"] == "1"
    assert settings["spark.sql.ansi.enabled"] == "true"


def test_the_master_is_the_configured_one() -> None:
    assert spark_settings("local[2]", {"spark.master": "yarn"}, SCRATCH)["spark.master"] == "local[2]"


@pytest.mark.parametrize("master", ["local", "local[4]", "local[*]", "local[2,3]", "local-cluster[2,1,1024]"])
def test_everything_on_this_machine_listens_on_loopback_with_a_secret(master: str) -> None:
    settings = spark_settings(master, {}, SCRATCH)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.authenticate"] == "true"
    assert len(settings["spark.authenticate.secret"]) == 64


def test_secrets_differ_from_start_to_start() -> None:
    first, second = (spark_settings("local", {}, SCRATCH)["spark.authenticate.secret"] for _ in range(2))
    assert first != second


def test_a_real_cluster_chooses_its_own_addresses() -> None:
    settings = spark_settings("spark://host:7077", {}, SCRATCH)
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.authenticate"} & settings.keys()
    assert "spark.sql.shuffle.partitions" not in settings


JARS = [Path("/cache/kafka.jar"), Path("/cache/avro.jar")]


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host"])
def test_executors_get_the_spark_packages_and_the_jars_of_the_user(master: str) -> None:
    settings = spark_settings(master, {"spark.jars": "/mine/a.jar"}, SCRATCH, JARS)
    assert settings["spark.jars"] == "/mine/a.jar,/cache/kafka.jar,/cache/avro.jar"


def test_on_one_machine_the_class_path_is_enough() -> None:
    assert "spark.jars" not in spark_settings("local[2]", {}, SCRATCH, JARS)


def test_executors_run_in_the_locale_of_the_driver_with_a_safe_collector() -> None:
    options = "spark.executor.extraJavaOptions"
    ours = spark_settings("yarn", {}, SCRATCH)[options].split()
    assert ours[:2] == ["-Duser.language=en", "-Duser.country=US"]
    assert ours[-1] == "-XX:+UseParallelGC"
    assert "-XX:-DontCompileHugeMethods" in ours
    theirs = spark_settings("yarn", {options: "-XX:+UseZGC -Dx=1"}, SCRATCH)[options].split()
    assert theirs[-2:] == ["-XX:+UseZGC", "-Dx=1"]
    assert "-XX:+UseParallelGC" not in theirs


def test_an_avro_message_cannot_claim_the_heap_of_an_executor() -> None:
    conf = {"spark.executor.memory": "2g"}
    options = spark_settings("yarn", conf, SCRATCH)["spark.executor.extraJavaOptions"].split()
    assert f"-Dorg.apache.avro.limits.string.maxLength={2**31 // 16}" in options


def test_python_workers_in_containers_of_yarn_use_no_unix_sockets() -> None:
    setting = "spark.python.unix.domain.socket.enabled"
    assert spark_settings("yarn", {}, SCRATCH)[setting] == "false"
    assert spark_settings("spark://host:7077", {}, SCRATCH)[setting] == "true"
    assert spark_settings("yarn", {setting: "true"}, SCRATCH)[setting] == "true"


def test_variables_that_steer_spark_s_scripts_do_not_reach_the_jvm() -> None:
    hostile = {"SPARK_HOME": "/x", "SPARK_CONF_DIR": "/x", "PYSPARK_SUBMIT_ARGS": "x", "PYTHONSTARTUP": "/x"}
    env = jvm_environment("local", {**hostile, "HOME": "/home/me", "PYSPARK_PYTHON": "python2"})
    assert not hostile.keys() & env.keys()
    assert env["HOME"] == "/home/me"
    assert env["PYSPARK_PYTHON"] == sys.executable


def test_addresses_of_the_user_apply_only_on_a_cluster() -> None:
    environ = {"SPARK_LOCAL_IP": "10.0.0.5"}
    assert jvm_environment("spark://host:7077", environ)["SPARK_LOCAL_IP"] == "10.0.0.5"
    assert jvm_environment("local[2]", environ)["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_python_workers_find_this_package() -> None:
    paths = jvm_environment("local", {"PYTHONPATH": "/mine"})["PYTHONPATH"].split(":")
    assert (Path(paths[0]) / "streamling" / "spark" / "jvm" / "settings.py").is_file()
    assert paths[1] == "/mine"


def test_unix_sockets_are_used_where_their_path_fits() -> None:
    setting = "spark.python.unix.domain.socket.enabled"
    assert spark_settings("local", {}, Path("/tmp/short"))[setting] == "true"
    assert spark_settings("local", {}, Path("/tmp") / ("long" * 20))[setting] == "false"
