from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.compression import Compression, level_problem

DATA = pa.py_buffer(b"a row and another row\n" * 1000)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_arrow_reads_what_is_compressed(codec: str) -> None:
    compressed = Compression(codec).compress(DATA)
    assert compressed.size < DATA.size / 10
    assert pa.decompress(compressed, DATA.size, codec=codec, asbytes=True) == DATA.to_pybytes()


@pytest.mark.parametrize("level", [None, 0, 9])
def test_gzip_is_a_file_with_header_and_trailer(level: int | None) -> None:
    assert gzip.decompress(Compression("gzip", level).compress(DATA).to_pybytes()) == DATA.to_pybytes()


def test_without_a_codec_nothing_changes() -> None:
    assert Compression("none").encoding is None
    assert Compression("none").compress(DATA) is DATA


@pytest.mark.parametrize(
    ("codec", "level", "valid"),
    [
        ("gzip", 0, True),
        ("gzip", 9, True),
        ("gzip", 10, False),
        ("gzip", -1, False),
        ("zstd", 1, True),
        ("zstd", 22, True),
        ("zstd", 0, False),
        ("zstd", 23, False),
        ("lz4", 1, True),
        ("lz4", 12, True),
        ("lz4", 13, False),
        ("none", 50, True),
        ("gzip", None, True),
    ],
)
def test_each_codec_has_its_levels(codec: str, level: int | None, valid: bool) -> None:
    problem = level_problem(codec, level)
    assert (problem is None) is valid
    if valid and level is not None and codec != "none":
        Compression(codec, level).compress(DATA)


def test_a_level_out_of_range_is_named_with_the_range() -> None:
    assert level_problem("zstd", 30) == "is 30; it must be between 1 and 22 for zstd"
