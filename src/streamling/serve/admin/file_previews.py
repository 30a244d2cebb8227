"""Previews of pipeline files, for the preview server and for the console of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from streamling.engine.run.app import App
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.serve.admin.preview_process import RunProcess
from streamling.serve.admin.previews import PreviewLimits, PreviewNode, Previews, shown_nodes


class FilePreviews:
    """Previews of pipeline files with one configuration, one at a time: a new one replaces the one that runs."""

    def __init__(self, config: AppConfig, config_name: str | None) -> None:
        self._config = config
        self._config_name = config_name
        self._previews = Previews(most=1)

    async def open(self, text: str, parameters: Mapping[str, str]) -> AsyncIterator[str]:
        """The events of a preview of ``text``; raises if it is invalid or cannot be started."""
        limits = PreviewLimits.of(parameters)
        nodes, rewritten = await run_in_threadpool(self._checked, text)
        start = partial(RunProcess.start, rewritten, limits, self._config, self._config_name)
        return await self._previews.open("", start, nodes, limits)

    async def open_file(self, file: str, parameters: Mapping[str, str]) -> AsyncIterator[str]:
        """The events of a preview of ``file`` as it is now."""
        try:
            text = await run_in_threadpool(Path(file).read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise StreamlingError.user(f"the pipeline file {file} cannot be read: {error}") from None
        return await self.open(text, parameters)

    def _checked(self, text: str) -> tuple[list[PreviewNode], str]:
        """The nodes whose rows are shown, and the text without sinks."""
        app = App.of(self._config)
        rewritten = app.without_sinks(text)
        return shown_nodes(app.parse(rewritten, "pipeline.yaml")), rewritten
