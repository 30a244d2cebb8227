from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from streamling.dev.services import packages as module
from streamling.dev.services.packages import Packages
from streamling.errors import StreamlingError
from streamling.spark.jvm.java import find_java


def locked(content: bytes, **entry: str) -> dict[str, Any]:
    return {**entry, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def tar(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder with the files of the service ``shop``, and a lock file for it."""
    root = tmp_path / "repository"
    files = {
        "org/example/jar/1.0/jar-1.0.jar": b"jar",
        "org/example/app/2.0/app-2.0-all.tar.gz": tar("lib/app.jar", b"app"),
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(content)
    jar, app = files.values()
    entries = [
        locked(jar, organisation="org.example", name="jar", revision="1.0"),
        locked(app, organisation="org.example", name="app", revision="2.0", classifier="all", extension="tar.gz"),
    ]
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps({"shop": {"version": "2.0", "files": entries}}))
    monkeypatch.setattr(module, "LOCK_FILE", lock)
    return root


@pytest.fixture
def packages(repository: Path, tmp_path: Path) -> Packages:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" usepoms="false" root="{repository.as_uri()}"/>'
        "</resolvers></ivysettings>"
    )
    return Packages(tmp_path / "cache", find_java(os.environ), settings)


def test_files_are_downloaded_once_and_archives_unpacked(packages: Packages) -> None:
    seen: list[float] = []
    folder = packages.folder("shop", lambda doing, done: seen.append(done))
    assert folder.name == "shop-2.0"
    assert {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} == {"jar-1.0.jar", "lib/app.jar"}
    assert seen == sorted(seen)
    assert [path.name for path in folder.parent.iterdir()] == ["shop-2.0"]

    assert packages.ivy_settings is not None
    packages.ivy_settings.unlink()
    assert packages.folder("shop") == folder


def test_a_file_with_a_wrong_checksum_is_rejected_and_not_kept(packages: Packages, repository: Path) -> None:
    (repository / "org/example/jar/1.0/jar-1.0.jar").write_bytes(b"bad")
    with pytest.raises(StreamlingError, match=r"jar-1\.0\.jar is not the expected file"):
        packages.folder("shop")
    assert list((packages.cache_dir / "services").iterdir()) == []


def test_the_lock_file_has_size_and_checksum_of_every_file() -> None:
    lock = json.loads(module.LOCK_FILE.read_text())
    assert sorted(lock) == ["kafka", "registry"]
    files = [file for service in lock.values() for file in service["files"]]
    assert len(files) == 47
    assert all(len(file["sha256"]) == 64 and file["size"] > 1000 for file in files)
