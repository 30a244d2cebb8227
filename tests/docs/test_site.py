"""`make docs` builds the site without warnings, with every page in the navigation; nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import PAGES
from tests.paths import ROOT

#: attributes that make a browser load something; the `href` of an `a` does not
_LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


def build(folder: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def navigation() -> set[str]:
    """The pages that mkdocs.yml names; its tags for Python objects are not used here."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return set(re.findall(r"[\w./-]+\.md$", text, re.MULTILINE))


def test_every_page_is_in_the_navigation() -> None:
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    examples = {page.relative_to(ROOT).as_posix() for page in (ROOT / "examples").rglob("README.md")}
    assert navigation() == pages | examples | {"CHANGELOG.md", "CONTRIBUTING.md"}


def test_every_page_is_built(site: Path) -> None:
    for page in navigation():
        html = page.removesuffix("README.md") + "index.html" if page.endswith("README.md") else f"{page[:-3]}.html"
        assert (site / html).is_file(), page


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The build is strict: a page with a link to nowhere, or to a heading that does not exist, is an error."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Page\n\n[nowhere](nowhere.md), [no heading](#nothing)\n")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    kept = {name: settings[name] for name in ("site_name", "validation")}
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump({**kept, "docs_dir": str(docs)}))
    done = build(tmp_path / "site", config=tmp_path / "mkdocs.yml")
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "#nothing" in done.stderr


def test_make_docs_does_not_hide_warnings() -> None:
    """With --quiet, mkdocs does not count warnings, and --strict has no effect."""
    recipe = re.search(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert "build --strict" in recipe[1]
    assert "quiet" not in recipe[1]


class _Loaded(HTMLParser):
    """What a page makes the browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        value = dict(attrs).get(_LOADS.get(tag, ""))
        if value:
            self.found.append(value)


def test_pages_load_only_files_of_the_site(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = _Loaded()
        loaded.feed(page.read_text())
        assert loaded.found
        for target in loaded.found:
            assert "//" not in target, f"{page.name} loads {target}"
            if page.name != "404.html":
                assert (page.parent / target.partition("?")[0]).exists(), f"{page.name} loads {target}"


def test_style_sheets_load_only_files_of_the_site(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        for target in re.findall(r"url\(([^)]*)\)|@import\s+([^;]*)", sheet.read_text()):
            assert not re.match(r"[\"']?(https?:)?//", target[0] or target[1]), sheet


def test_the_search_works_without_a_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    assert index.startswith("var __index = {")
    assert "postgres_aggregate" in index
    assert '<script src="assets/iframe-worker.js">' in (site / "index.html").read_text()


def test_links_between_repository_and_site_lead_to_pages(site: Path) -> None:
    """Pages outside docs/ are elsewhere in the site than in the repository; links in both directions follow them."""
    assert 'href="examples/dead-letters/index.html"' in (site / "dead-letters.html").read_text()
    assert 'href="../../dead-letters.html"' in (site / "examples" / "dead-letters" / "index.html").read_text()
    assert 'href="security.html"' in (site / "CHANGELOG.html").read_text()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_work_in_the_repository_too(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"(?<=\]\()(?![a-z]+:|#)[^)\s#]+", prose)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_assistants_find_their_page_as_text(site: Path) -> None:
    assert (site / "llms.txt").read_text() == (ROOT / "docs" / "llms.md").read_text()
