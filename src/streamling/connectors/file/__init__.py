"""Files: CSV, JSON, Parquet and Avro, in folders and buckets."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"file": "source:FileSource"},
    config="config:FileConfig",
    jars="jars.lock.json",
)
