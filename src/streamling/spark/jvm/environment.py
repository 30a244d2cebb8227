"""The environment variables of the Spark JVM, its executors on this machine, and their Python workers.

Variables often contain secrets, and everything that runs inside Spark could read them. Therefore Spark's processes see
only the variables they need, and those listed in ``spark.environment``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from streamling.spark.jvm.settings import LOOPBACK
from streamling.spark.master import on_this_machine

#: What a process needs from its machine. Variables with secret values do not belong here.
_NEEDED = (
    # the operating system
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TZDIR", "LANG", "LANGUAGE", "LC_*"),
    *("LD_LIBRARY_PATH", "DYLD_*", "LD_PRELOAD", "MALLOC_*", "OMP_NUM_THREADS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    # Java and Python
    *("JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("PYTHONHOME", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONNOUSERSITE"),
    *("PYTHONUSERBASE", "VIRTUAL_ENV", "CONDA_PREFIX"),
    # where clients of clusters and buckets find their configuration: names and paths, not the secrets themselves
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "YARN_CONF_DIR", "KRB5_CONFIG", "KRB5CCNAME"),
    *("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
)

#: Spark's own variables that keep their meaning on a cluster; the others would affect its launch scripts
_NEEDED_ON_CLUSTER = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS", "SPARK_USER")

#: never passed on, even if the user lists them: they would affect Spark's scripts, or run code in the workers
_NEVER = ("SPARK_*", "PYSPARK_*", "PYTHONSTARTUP", "PYTHONSAFEPATH", "PYTHONPATH", "PYTHONINSPECT")


def needed_variables(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a Java or Python process needs, and those that match ``names`` (`AWS_*` matches
    several)."""
    wanted = (*_NEEDED, *names)
    return {name: environ[name] for name in environ if _matches(name, wanted) and not _matches(name, _NEVER)}


def jvm_environment(
    master: str, environ: Mapping[str, str], names: Iterable[str] = (), python: str = sys.executable
) -> dict[str, str]:
    """Return the whole environment of the JVM; its Python workers inherit it. ``names`` are further variables to pass
    on."""
    env = needed_variables(environ, names)
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = python
    # Without it, Python puts the working directory first on its path, and a file random.py there would run.
    env["PYTHONSAFEPATH"] = "1"
    # Python workers unpickle functions of this package, also if it runs from a source folder.
    package = str(Path(__file__).parents[3])
    # An empty entry would mean the working directory.
    env["PYTHONPATH"] = os.pathsep.join([package, *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))])
    if on_this_machine(master):
        # Avoids the lookup of the host name and the warning about its result.
        env |= {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_LOCAL_HOSTNAME": "localhost"}
    else:
        env |= {name: environ[name] for name in _NEEDED_ON_CLUSTER if name in environ}
    return env


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
