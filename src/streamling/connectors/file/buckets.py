"""Files in a bucket, through Arrow's own clients: Spark would need a bundle of half a gigabyte for it."""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, cast
from urllib.parse import urlsplit

from streamling.connectors.file.storage import EXPECTED_EXTENSIONS, File, is_data_file, is_hidden, partitions_of
from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy

_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)
_GLOB_CHARACTERS = frozenset("*?[")
#: read-ahead size: each read is a request
_BUFFER_BYTES = 4 << 20


class BucketStorage:
    """A prefix, an object or a pattern in an S3 or Google Cloud Storage bucket."""

    is_on_disk = False

    def __init__(self, scheme: str, path: str, format: str, environ: Mapping[str, str], network: NetworkPolicy) -> None:
        self._scheme = scheme
        self._network = network
        self._format = format
        # Sent to executors: only what the client needs.
        self._environ = {name: environ[name] for name in environ if name in _VARIABLES}
        self._path = path.strip("/")
        parts = self._path.split("/")
        fixed = next((i for i, part in enumerate(parts) if not _GLOB_CHARACTERS.isdisjoint(part)), None)
        self.root = self._path if fixed is None else "/".join(parts[:fixed])
        self._has_pattern = fixed is not None
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def no_files_error(self) -> StreamlingError:
        return StreamlingError.user(
            f"there are no {self._format} files in '{self._scheme}://{self._path}'",
            remedy=f"check the path; {EXPECTED_EXTENSIONS[self._format]}",
        )

    def list_files(self) -> list[File]:
        try:
            files = sorted(self._list(), key=lambda file: file.path)
        except (OSError, ValueError) as error:
            raise self._list_error(error) from error
        return files

    def real_path(self, path: str) -> str:
        return path

    def open(self, path: str) -> IO[bytes]:
        return cast(IO[bytes], io.BufferedReader(self._fs.open_input_file(path), _BUFFER_BYTES))

    def _list(self) -> Iterator[File]:
        from pyarrow import fs

        named = self._fs.get_file_info([self._path])[0]
        if named.type == fs.FileType.File:
            yield self._file(named)
            return
        selector = fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        for info in self._fs.get_file_info(selector):
            if info.type == fs.FileType.File and self._is_selected(info.path):
                yield self._file(info)

    def _is_selected(self, path: str) -> bool:
        below = path[len(self.root) :].strip("/").split("/")
        if any(map(is_hidden, below)):
            return False
        if self._has_pattern and _matches(path.split("/"), self._path.split("/")):
            return True
        # A pattern may also match folders: the files in them need the right extension.
        in_folder = not self._has_pattern or _is_below(path.split("/"), self._path.split("/"))
        return in_folder and is_data_file(below[-1], self._format)

    def _file(self, info: Any) -> File:
        return File(
            info.path, info.path.partition("/")[2], info.size, info.mtime_ns or 0, partitions_of(info.path, self.root)
        )

    @property
    def _fs(self) -> Any:
        if self._client is None:
            self._client = self._gcs() if self._scheme == "gs" else self._s3()
        return self._client

    def _s3(self) -> Any:
        from pyarrow import fs

        # The client finds profiles and roles itself, also on executors.
        env = self._environ
        endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
        if endpoint:
            self._check_address(endpoint)
        return fs.S3FileSystem(
            access_key=env.get("AWS_ACCESS_KEY_ID"),
            secret_key=env.get("AWS_SECRET_ACCESS_KEY"),
            session_token=env.get("AWS_SESSION_TOKEN"),
            endpoint_override=endpoint,
            region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"),
            # Servers with their own name or address rarely support bucket.host.
            force_virtual_addressing=False,
        )

    def _check_address(self, endpoint: str) -> None:
        """Raise if the network policy denies the server. Arrow's client resolves the name once more: pipelines
        cannot choose it."""
        address = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        with suppress(OSError):  # the client reports a name that cannot be resolved
            self._network.addresses(address.hostname or "", address.port or 443)

    def _gcs(self) -> Any:
        from pyarrow import fs

        return fs.GcsFileSystem()

    def _list_error(self, error: Exception) -> StreamlingError:
        # Arrow's message ends with the request's headers and the server's page
        reason = str(error).partition("\n")[0]
        return StreamlingError(
            f"the files in '{self._scheme}://{self._path}' cannot be listed: {reason}",
            internal=False,
            retriable="NETWORK_CONNECTION" in reason or "SLOW_DOWN" in reason,
            remedy="check the bucket's name, the credentials, the region and AWS_ENDPOINT_URL",
        )


def _matches(path: list[str], pattern: list[str]) -> bool:
    """Return whether the parts of a path match the parts of a pattern; ``**`` matches any number of folders."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_matches(path[i:], pattern[1:]) for i in range(len(path) + 1))
    return bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _is_below(path: list[str], pattern: list[str]) -> bool:
    return any(_matches(path[:i], pattern) for i in range(1, len(path)))
