from __future__ import annotations

import os
import subprocess
from pathlib import Path

from streamling.spark.jvm.ivy import trusted_certificates, write_trust_store
from streamling.spark.jvm.java import find_java


def test_java_reads_every_certificate_python_trusts(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    flags = write_trust_store(store)
    assert f"-Djavax.net.ssl.trustStore={store}" in flags
    keytool = find_java(os.environ).home / "bin" / "keytool"
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", "changeit"], capture_output=True, text=True, check=True
    )
    assert listed.stdout.count("trustedCertEntry") == len(trusted_certificates()) > 0
