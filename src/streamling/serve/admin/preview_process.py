"""A preview in `streamling run`: keeps no state, and stays after the end of the pipeline or a failure."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.serve.admin.previews import PreviewLimits
from streamling.serve.admin.registry import running_pipelines
from streamling.serve.admin.remote import RemoteAdmin

#: from the start of the process until it serves its admin API
_START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 10.0
_LONGEST_ERROR: Final = 16 * 1024


class RunProcess:
    """The `PreviewProcess` of a pipeline file."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: tempfile.TemporaryDirectory[str], config: AppConfig
    ) -> None:
        self._process = process
        self._folder = folder
        self._config = config
        self._output = b""
        self._relaying = asyncio.create_task(self._relay())

    @classmethod
    async def start(cls, text: str, limits: PreviewLimits, config: AppConfig, config_name: str | None) -> Self:
        """Run the pipeline ``text``, whose sinks have been replaced."""
        folder = tempfile.TemporaryDirectory(prefix="streamling-preview-")
        try:
            file = Path(folder.name) / "pipeline.yaml"
            file.write_text(text, encoding="utf-8")
            options = [] if config_name is None else ["--config", config_name]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "streamling", "run", str(file), "--read-only", *options),
                env={**os.environ, **_variables(limits)},
                stdin=asyncio.subprocess.PIPE,  # never written: its end tells the process that this one has ended
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            folder.cleanup()
            raise StreamlingError(f"the preview cannot be started: {error.strerror}") from None
        return cls(process, folder, config)

    async def admin(self) -> RemoteAdmin:
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while self._process.returncode is None and asyncio.get_running_loop().time() < deadline:
            runs = await run_in_threadpool(running_pipelines, self._config.cache_dir)
            found = next((run.url for run in runs if run.pid == self._process.pid), None)
            if found is not None:
                token = self._config.admin_api_token
                secret = None if token is None else token.get_secret_value()
                return RemoteAdmin(urlsplit(found).port or 0, secret, "/admin")
            await asyncio.sleep(_POLL_SECONDS)
        if self._process.returncode is None:
            raise StreamlingError(f"the preview was not ready after {_START_SECONDS:g} s")
        await self._relaying
        raise StreamlingError(self._error() or f"its process ended with exit code {self._process.returncode}")

    async def stop(self) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        self._folder.cleanup()

    async def _relay(self) -> None:
        """The log of the process is part of ours; its end says why the process ended."""
        assert self._process.stderr is not None
        while part := await self._process.stderr.read(4096):
            sys.stderr.buffer.write(part)
            sys.stderr.buffer.flush()
            self._output = (self._output + part)[-_LONGEST_ERROR:]

    def _error(self) -> str:
        """What `streamling run` printed as its error."""
        _, found, text = ("\n" + self._output.decode("utf-8", "replace")).rpartition("\nerror: ")
        return text.strip() if found else ""


def _variables(limits: PreviewLimits) -> dict[str, str]:
    """Settings of the process; with a number of rows, the first ones are kept."""
    variables = {
        "LIVE_DATA_INSPECT_ENABLED": "true",
        "PREVIEW_TOLERANT_MODE": "true",
        "ADMIN_API_ENABLED": "true",
        "ADMIN_API_HOST": "127.0.0.1",
        "ADMIN_API_PORT": "0",
    }
    if limits.rows is not None:
        variables["LIVE_DATA_INSPECT__RECORDS_PER_TOPOLOGY_NODE"] = str(limits.rows)
        variables["LIVE_DATA_INSPECT__REFRESH_IN_SECS"] = "inf"
    return {f"STREAMLING__{name}": value for name, value in variables.items()}
