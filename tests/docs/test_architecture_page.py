"""The walks of the architecture page name files that exist, each once, and as many as the page says."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "streamling"
WALKS = ("A row from Kafka to Postgres", "From `POST /pipelines` to the first row", "From SQL text to a Spark plan")


def files_of(walk: str) -> list[str]:
    """Return the files that the table of a walk names, as paths below `src/streamling/`."""
    section = PAGE.partition(f"### {walk}\n")[2].partition("\n#")[0]
    found, rooms = [], [""]
    for room, text in re.findall(r"^\| (.*?) ?\| (.*) \|$", section, re.MULTILINE)[1:]:
        rooms = re.findall(r"`([\w/]+/)`", room) or rooms
        for name in re.findall(r"`([\w/]+\.py)`", text):
            folders = [folder for folder in (*rooms, "") if (SOURCE / folder / name).is_file()]
            assert folders, f"there is no {name} in {rooms}"
            found.append(f"{folders[0]}{name}")
    return found


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_names_each_of_its_files_once(walk: str) -> None:
    files = files_of(walk)
    section = PAGE.partition(f"### {walk}\n")[2].partition("\n#")[0]
    assert len(set(files)) == len(files)
    counted = re.search(r"\b(\d+) files", section)
    assert counted is not None
    assert int(counted[1]) == len(files)
