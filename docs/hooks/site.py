"""Builds the site from the repository: adds the changelog, the contributing guide and the examples to docs/.

Their links, and those of the pages to them, are written for the repository. They are resolved there and rewritten to
where the target is in the site, so the same Markdown works in both.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
#: files and folders of the repository that are part of the site
_INCLUDED = ("CHANGELOG.md", "CONTRIBUTING.md", "examples")
_SUFFIXES = (".md", ".yaml", ".py", ".csv", ".jsonl", ".avsc", ".sh", ".toml")
#: the page for coding assistants, which they look for at the root of a site under this name
_ASSISTANTS_PAGE, _ASSISTANTS_FILE = "llms.md", "llms.txt"

_FENCE = re.compile(r"^( *)(```+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_TABLE_CODE = re.compile(r"(?<=<code>)[\w.<>&;:/-]{16,}(?=</code>)")
_NAME_PART = re.compile(r"_+|::|/|\.(?=[a-z])")
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository that are part of the site."""
    for path in _included_files():
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links of ``page`` whose targets are elsewhere in the site than in the repository. The first page has
    no sidebars; its front matter would be visible in the repository."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    here = _repository_path(page.file)

    def rewritten(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[1]))
        readme = posixpath.join(target, "README.md")
        found = _site_path(readme if files.get_file_from_path(readme) else target)
        start = posixpath.dirname(page.file.src_uri) or "."
        return posixpath.relpath(found, start) + (link[2] or "")

    return _outside_of_code(markdown, lambda text: _LINK.sub(rewritten, text))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Let long names in tables break between their parts: a variable is longer than its column is wide."""
    return _TABLE_CODE.sub(lambda code: _NAME_PART.sub(r"\g<0><wbr>", code[0]), output)


def on_post_build(config: MkDocsConfig) -> None:
    """Publish the page for coding assistants as plain text too."""
    shutil.copyfile(Path(config.docs_dir, _ASSISTANTS_PAGE), Path(config.site_dir, _ASSISTANTS_FILE))


def _included_files() -> Iterator[str]:
    """Runs of the examples leave other files behind."""
    for name in _INCLUDED:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            relative = file.relative_to(ROOT)
            if file.suffix in _SUFFIXES and not any(part.startswith((".", "__")) for part in relative.parts):
                yield relative.as_posix()


def _repository_path(file: File) -> str:
    return file.src_uri if file.src_dir == str(ROOT) else f"docs/{file.src_uri}"


def _site_path(path: str) -> str:
    """Where a file of the repository is in the site."""
    parts = PurePosixPath(path).parts
    return posixpath.join(*parts[1:]) if parts[:1] == ("docs",) and len(parts) > 1 else path


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    """``markdown`` with everything changed that is not in a fenced block."""
    done, end = [], 0
    for fence in _FENCE.finditer(markdown):
        done += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*done, change(markdown[end:])])
