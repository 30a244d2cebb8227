"""Progress on stderr: a bar for a terminal, lines for everything else."""

import io

from streamling.cli.progress import progress_of_steps


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _report(stream: io.StringIO, monkeypatch) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    with progress_of_steps() as report:
        report("fetching jars", 0.0)
        report("fetching jars", 0.5)
        report("building", 1.0)
    return stream.getvalue()


def test_a_file_gets_one_line_per_step(monkeypatch):
    assert _report(io.StringIO(), monkeypatch) == "fetching jars\nbuilding\n"


def test_a_terminal_gets_a_bar_that_is_removed_at_the_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = _report(_Terminal(), monkeypatch)
    assert f"[{'█' * 15}{'·' * 15}] fetching jars" in shown
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown
