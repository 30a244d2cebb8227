"""Declarations of SQL functions: one per function, as data, for the compiler, its messages, the documentation and the
tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.fragments import Args, fill, type_of, widen

#: inspects the arguments; None: they belong to Spark's function of the same name
Rewrite = Callable[[Args], exp.Expr | None]

#: the type of a call, from its arguments; None if only Spark knows it
TypeRule = Callable[[Args], pa.DataType | None]


@dataclass(frozen=True)
class Kernel:
    """A function on whole Arrow arrays that runs in Spark's Python workers, because Spark cannot express it."""

    #: module below `streamling.sql.kernels` and the function in it
    path: str
    #: Spark's name of the result type
    returns: str
    #: the module, if it is another one
    module: str | None = None

    @property
    def spark_name(self) -> str:
        return KERNEL_PREFIX + self.path.replace(".", "_")


#: a template over the arguments (``{0}``, ``{*}``), one template per number of arguments from the smallest on, code
#: that inspects the arguments, or a kernel
Implementation = str | tuple[str, ...] | Rewrite | Kernel


@dataclass(frozen=True)
class Function:
    """One function and everything about it."""

    name: str
    #: the kinds of its arguments; ``?`` marks optional ones, ``*`` those that repeat zero or more times
    takes: str
    spark: Implementation
    #: one sentence
    summary: str
    #: equations in SQL, each true; separated by line breaks
    examples: str
    result: pa.DataType | TypeRule | None = None
    #: other names, separated by spaces
    aliases: str = ""
    #: why its result differs from DataFusion's function of this name, if it does
    differs: str = ""
    #: kernels that its rewrite puts into larger expressions
    uses: tuple[Kernel, ...] = ()

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(word.rstrip("?*") for word in self.takes.split())

    @cached_property
    def arity(self) -> tuple[int, int | None]:
        """The minimum and maximum number of arguments; None: any."""
        words = self.takes.split()
        return sum(word[-1] not in "?*" for word in words), None if self.takes.endswith("*") else len(words)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases.split())

    @property
    def signature(self) -> str:
        required, most = self.arity
        shown = list(self.kinds)
        start = ", ".join(shown[:required])
        optional = shown[required:]
        if most is None:
            return f"{self.name}({', '.join(filter(None, [start, optional[-1] + ', …']))})"
        inner = "".join(f"[, {kind}" if start or place else f"[{kind}" for place, kind in enumerate(optional))
        return f"{self.name}({start}{inner}{']' * len(optional)})"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels that a call may use."""
        return (self.spark,) if isinstance(self.spark, Kernel) else self.uses

    def fits(self, count: int) -> bool:
        least, most = self.arity
        return least <= count and (most is None or count <= most)

    def compile(self, args: Args) -> exp.Expr | None:
        """Return the call as Spark's, with its type. None if these arguments belong to Spark's function of this
        name."""
        args = [_adapted(self.kind_of(place), arg) for place, arg in enumerate(args)]
        if isinstance(self.spark, Kernel):
            rewritten: exp.Expr | None = fill(self.spark.spark_name + "({*})", args)
        elif callable(self.spark):
            rewritten = self.spark(args)
        else:
            template = self.spark if isinstance(self.spark, str) else self.spark[len(args) - self.arity[0]]
            rewritten = fill(template, args)
        if rewritten is not None and "arrow" not in rewritten.meta:
            rewritten.meta["arrow"] = self.result(args) if callable(self.result) else self.result
        return rewritten

    def kind_of(self, place: int) -> str:
        return self.kinds[min(place, len(self.kinds) - 1)]


def like(place: int) -> TypeRule:
    """Give the result the type of an argument."""
    return lambda args: type_of(args[place]) if place < len(args) else None


def element_of(place: int) -> TypeRule:
    """Give the result the type of the elements of an argument."""

    def rule(args: Args) -> pa.DataType | None:
        type_ = type_of(args[place])
        return type_.value_type if type_ is not None and pa.types.is_list(type_) else None

    return rule


# greatest() and least() would turn NULL into a number
_INT = "CAST(if({0} > 2147483647, 2147483647, if({0} < -2147483648, -2147483648, {0})) AS INT)"
_SMALL = (pa.int8(), pa.int16(), pa.int32())


def _adapted(kind: str, arg: exp.Expr) -> exp.Expr:
    """Convert an argument to the integers of the function. Most of Spark's are INT, all of DataFusion's are 64-bit:
    larger ones become the largest INT. Elsewhere a bare integer is a 64-bit one."""
    if kind not in ("int", "place"):
        return widen(arg)
    plain = arg.this if isinstance(arg, exp.Neg) else arg
    if isinstance(plain, exp.Literal) and (plain.is_string or int(plain.name) < 2**31):
        return arg
    return arg if type_of(arg) in _SMALL else fill(_INT, [arg], pa.int32())
