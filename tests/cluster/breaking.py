"""A plugin file whose operators fail, each in its own way."""

import os
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from streamling.plugins import Sink, SinkOptions, SqlFunction, Transform, TransformOptions, plugin


class Passing(Transform[TransformOptions]):
    Options = TransformOptions

    def output_schema(self):
        return self.context.input_schema


@plugin("breaking.raises")
class Raises(Passing):
    def process(self, batch):
        raise ValueError(f"{batch.num_rows and 'these rows'} are too much")


@plugin("breaking.imports")
class Imports(Passing):
    def process(self, batch):
        import no_such_module

        return no_such_module.changed(batch)


@plugin("breaking.exits")
class Exits(Passing):
    """Takes its executor with it: the parent of the daemon that forks Python workers."""

    def process(self, batch):
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(executor, 9)
        os._exit(1)


@plugin("breaking.full")
class Full(Sink[SinkOptions]):
    Options = SinkOptions
    distributable = True

    def write(self, batch):
        raise OSError("no room left")


@plugin("breaking_function")
class Function(SqlFunction):
    """Fails for every row."""

    argument_types: ClassVar = (pa.int64(),)
    return_type = pa.int64()

    def call(self, numbers):
        raise ArithmeticError("cannot be computed")
