"""Writes every file of the repository that is generated from declarations: `make generate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamling.dev.reference.additions import with_pages, with_sections, with_tested_types
from streamling.dev.reference.compact import with_node_types
from streamling.dev.reference.configuration import configuration_page
from streamling.dev.reference.functions import functions_page
from streamling.dev.reference.nodes import with_field_tables
from streamling.dev.reference.schemas import schema_text
from streamling.plugins.registry import Registry


def generated(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below ``root`` and what they should contain."""
    registry = Registry.builtin()
    docs, schemas = root / "docs", root / "schemas"
    whole = {docs / "configuration.md": configuration_page(), docs / "sql-functions.md": functions_page()}
    yield from whole.items()
    for page in sorted({*docs.rglob("*.md")} - whole.keys()):
        text = page.read_text()
        if page == docs / "pipeline-file.md":
            text = with_sections(text, registry)
        if "<!-- end -->" in text:
            text = with_node_types(with_field_tables(text, registry), registry)
            yield page, with_tested_types(text, root / "tests" / "cluster" / "matrix.yaml", registry)
    yield root / "mkdocs.yml", with_pages((root / "mkdocs.yml").read_text(), docs)
    yield schemas / "pipeline.schema.json", schema_text(registry)
    yield schemas / "test.schema.json", schema_text(None)


if __name__ == "__main__":
    root = Path.cwd()
    for path, text in generated(root):
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(root))
