"""Files to read: orders with numbers, texts and times, the same rows in every format."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

FORMATS = ("csv", "parquet")
#: columns, in Spark's schema syntax
SCHEMA = "order_id bigint, customer string, country string, amount double, quantity bigint, ordered_at timestamp_ntz"
#: what all jobs compute: a filter that keeps half of the rows, and some work per row
COLUMNS = (
    "order_id",
    "upper(customer) AS customer",
    "round(amount * quantity, 2) AS total",
    "country IN ('DE', 'ES', 'FR') AS in_europe",
    "ordered_at",
)
CONDITION = "amount >= 50"
#: as many expressions as SQL over a wide table has
WIDE = (
    "order_id",
    *(f"CASE WHEN quantity > {n} THEN upper(customer) ELSE concat(country, customer) END AS c{n}" for n in range(60)),
)

FILES = 8
_COUNTRIES = ("BR", "DE", "ES", "FR", "IN", "JP", "NG", "US")


def prepare(cache_dir: Path, rows: int) -> Path:
    """Return the folder with ``rows`` rows under ``csv/`` and ``parquet/``, written if it does not exist."""
    # beside the cache folder: a file source does not read files of Streamling
    folder = cache_dir.parent / f"bench-{cache_dir.name}" / f"orders-{rows}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(unfinished, rows)
        unfinished.rename(folder)
    return folder


def _write(folder: Path, rows: int) -> None:
    from pyarrow import csv, parquet

    for format in FORMATS:
        (folder / format).mkdir(parents=True)
    share = -(-rows // FILES)
    for number, first in enumerate(range(0, rows, share)):
        table = _orders(first, min(share, rows - first))
        csv.write_csv(table, folder / "csv" / f"{number}.csv", csv.WriteOptions(quoting_style="needed"))
        parquet.write_table(table, folder / "parquet" / f"{number}.parquet")


def _orders(first: int, count: int) -> pa.Table:
    """Values are spread by multiplying with a large prime: not random, the same rows everywhere."""
    ids = pa.array(range(first, first + count), pa.int64())
    spread = pc.bit_wise_and(pc.multiply(ids, 2_654_435_761), 0xFFFF)
    return pa.table(
        {
            "order_id": ids,
            "customer": pc.binary_join_element_wise("customer ", pc.cast(spread, pa.string()), ""),
            "country": pa.array(_COUNTRIES).take(pc.bit_wise_and(spread, len(_COUNTRIES) - 1)),
            "amount": pc.round(pc.divide(pc.cast(spread, pa.float64()), 655.35), 2),
            "quantity": pc.add(pc.bit_wise_and(spread, 7), 1),
            "ordered_at": pc.add(pa.scalar(1_704_067_200, pa.int64()), ids)
            .cast(pa.timestamp("s"))
            .cast("timestamp[us]"),
        }
    )
