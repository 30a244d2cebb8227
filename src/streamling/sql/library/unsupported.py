"""Functions of DataFusion that are not supported, and what to write instead."""

from __future__ import annotations

ALTERNATIVES: dict[str, str] = {
    "arrow_field": "typeof(x)",
    "arrow_metadata": "typeof(x)",
    "file_row_index": "a column of the file",
    "input_file_name": "a column of the file",
    "union_extract": "CAST(x AS TEXT)",
    "union_tag": "CAST(x AS TEXT)",
}
