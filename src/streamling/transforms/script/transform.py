"""Script transform: calls a JavaScript or TypeScript function for each row, in a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

import pyarrow as pa
from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.errors import InlineCodeError
from streamling.pipeline.document.scalars import PrimaryKey, ProgramText, folded
from streamling.pipeline.options import (
    BatchOptions,
    DeadLetterOptions,
    ParallelOptions,
    TransformOptions,
    UpstreamOptions,
)
from streamling.pipeline.typenames import TypeName, parse_type
from streamling.plugins.transforms import Transform
from streamling.transforms.script.codecs import codec_for
from streamling.transforms.script.config import ScriptConfig, ScriptSettings
from streamling.transforms.script.console import Console
from streamling.transforms.script.engine import Limits, ScriptEngine, ScriptFailed
from streamling.transforms.script.program import DRIVER_ERROR, line_of
from streamling.transforms.script.runner import Runner
from streamling.transforms.script.syntax import parse_script, text_of
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from tree_sitter import Node

    from streamling.pipeline.config import AppConfig


_DEFAULT_FLUSH_SECONDS = 1.0
_UNDECLARED_COLUMNS = "the script returns columns that are not part of the output (declare them in 'schema')"
_ALIASES = {"js": "javascript", "ts": "typescript"}


def _language(value: object) -> object:
    name = folded(value)
    return _ALIASES.get(name, name) if isinstance(name, str) else name


Language = Annotated[
    Literal["javascript", "typescript"],
    BeforeValidator(_language),
    WithJsonSchema({"enum": ["javascript", "js", "typescript", "ts"]}),
]


class ScriptTransformOptions(ParallelOptions, BatchOptions, DeadLetterOptions, UpstreamOptions, TransformOptions):
    """Calls a function for each row, which returns the new row, null to drop it, or a list of rows."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"language"})

    primary_key: PrimaryKey = Field(description="Key columns of the output, comma-separated.")
    language: Language = Field(description="Language of the script: javascript (js) or typescript (ts).")
    script: ProgramText = Field(min_length=1, description="Script with the function.")
    schema_: dict[str, TypeName] | None = Field(
        default=None,
        alias="schema",
        description="Columns of the output and their types; defaults to those of the input.",
    )

    def with_config_defaults(self, config: AppConfig) -> Self:
        shared = {
            name: config.part(ScriptConfig).wasm_script.explicit_value(name) for name in ("parallelism", "batch_size")
        }
        return self.model_copy(update={k: v for k, v in shared.items() if v is not None and getattr(self, k) is None})

    @property
    def flush_interval(self) -> float | None:
        default = _DEFAULT_FLUSH_SECONDS if self.batch_size else None
        return self.batch_flush_interval if self.batch_flush_interval is not None else default


class ScriptTransform(Transform[ScriptTransformOptions]):
    """Runs batches through the script. Each instance has its own sandbox, and each batch starts with a clean one."""

    Options: ClassVar[type[ScriptTransformOptions]] = ScriptTransformOptions
    own_thread: ClassVar[bool] = False
    _script: Runner | None = None

    @cached_property
    def _console(self) -> Console:
        return Console(lambda level, line: self.context.log.log(level, "%s", line))

    def check(self) -> None:
        """Load the script, so that errors in it are reported before the pipeline starts, and check its text for
        undeclared columns."""
        nothing = pa.schema([])
        try:
            self._runner(nothing, nothing).check()
        except ScriptFailed as failure:
            raise self._script_error(failure) from None
        if self.options.schema_ is not None or len(self.context.input_schema):
            columns = self.output_schema().names
            unknown = [name for name in returned_names(self.options.script) if name not in columns]
            self.context.report_dropped_columns(_UNDECLARED_COLUMNS, unknown)

    def output_schema(self) -> pa.Schema:
        inputs, declared = self.context.input_schema, self.options.schema_
        if declared is None:
            fields = [field if field.name == OP_COLUMN else field.with_nullable(True) for field in inputs]
        else:
            fields = [pa.field(name, parse_type(declared[name])) for name in sorted(declared)]
        if OP_COLUMN not in {field.name for field in fields}:
            fields.append(pa.field(OP_COLUMN, pa.string(), nullable=False))
        schema = pa.schema(fields)
        for field in (*inputs, *schema):
            codec_for(field)
        return schema

    def labels(self) -> Mapping[str, str]:
        return {"language": self.options.language}

    def open(self) -> None:
        self._script = self._runner(self.context.input_schema, self.output_schema())

    def close(self) -> None:
        if self._script is not None:
            self._script.close()

    def process(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self._script is not None  # `open` has been called
        return self._script.run(batch)

    def _runner(self, inputs: pa.Schema, outputs: pa.Schema) -> Runner:
        config = self.context.config.part(ScriptConfig).wasm_script
        return Runner(
            self._javascript(),
            inputs=inputs,
            outputs=outputs,
            copied=OP_COLUMN,
            engine=engine_for(config),
            limits=limits_of(config),
            console=self._console,
            on_unknown=lambda names: self.context.report_dropped_columns(_UNDECLARED_COLUMNS, names),
        )

    def _javascript(self) -> str:
        if self.options.language == "javascript":
            return self.options.script
        from streamling.transforms.script.typescript import strip_types

        return strip_types(self.options.script)

    def _script_error(self, failure: ScriptFailed) -> InlineCodeError:
        line = line_of(failure) if failure.name != DRIVER_ERROR else 0
        lines = self.options.script.splitlines()
        named = f"{failure.name}: " if failure.name and failure.name != DRIVER_ERROR else ""
        excerpt = f"  {lines[line - 1]}" if 0 < line <= len(lines) else ""
        return InlineCodeError(f"the script is invalid: {named}{failure.message}", "script", line, excerpt)


# ── the engine ───────────────────────────────────────────────────────────────────────────────────────────────────


def limits_of(config: ScriptSettings) -> Limits:
    return Limits(config.memory_limit_mb << 20, config.timeout_sec)


def engine_for(config: ScriptSettings) -> ScriptEngine:
    """Return the configured engine. Engines are expensive to import, so each is imported when it is used."""
    limits = limits_of(config)
    if config.engine == "v8":
        from streamling.transforms.script.v8 import V8

        return V8(limits)
    from streamling.transforms.script.quickjs import QuickJs

    return QuickJs(limits, config.runtime_wasm_file_path)


# ── the columns that a script returns, as far as its text shows ──────────────────────────────────────────────────

_FUNCTIONS: Final = frozenset(
    {"function_declaration", "function_expression", "arrow_function", "method_definition", "generator_function"}
)
#: nodes that wrap a value without changing it
_WRAPPERS: Final = frozenset(
    {"parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression"}
)
_ROW_FUNCTION_NAMES: Final = ("process", "invoke")


def returned_names(script: str) -> list[str]:
    """Return the names of columns, each once. Without those of spread objects, computed names, or rows built
    elsewhere."""
    function = _row_function(parse_script(script))
    if function is None:
        return []
    return list(dict.fromkeys(name for value in _returned_values(function) for name in _names(value)))


def _row_function(root: Node) -> Node | None:
    """Return the function that takes a row, or None if that is ambiguous."""
    named = [(_name_of(function), function) for function in _outermost(root)]
    matching = [function for name, function in named if name in _ROW_FUNCTION_NAMES]
    if matching:
        return matching[-1]
    return named[0][1] if len(named) == 1 else None


def _outermost(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _FUNCTIONS:
            yield child
        else:
            yield from _outermost(child)


def _name_of(function: Node) -> str:
    name = function.child_by_field_name("name")
    declared = function.parent
    if name is None and declared is not None and declared.type == "variable_declarator":
        name = declared.child_by_field_name("name")
    return "" if name is None else text_of(name)


def _returned_values(function: Node) -> Iterator[Node]:
    body = function.child_by_field_name("body")
    if body is None:
        return
    if body.type != "statement_block":  # an arrow function
        yield body
        return
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if node.type == "return_statement":
            yield from node.named_children[:1]
        elif node.type not in _FUNCTIONS:
            waiting += reversed(node.named_children)


def _names(value: Node) -> Iterator[str]:
    if value.type in _WRAPPERS and value.named_children:
        yield from _names(value.named_children[0])
    elif value.type == "ternary_expression":
        for branch in ("consequence", "alternative"):
            if (node := value.child_by_field_name(branch)) is not None:
                yield from _names(node)
    elif value.type == "array":
        for item in value.named_children:
            yield from _names(item)
    elif value.type == "object":
        yield from filter(None, map(_key, value.named_children))


def _key(part: Node) -> str | None:
    if part.type == "shorthand_property_identifier":
        return text_of(part)
    key = part.child_by_field_name("key") if part.type == "pair" else None
    if key is None or key.type not in ("property_identifier", "string"):
        return None
    text = text_of(key)
    return text[1:-1] if key.type == "string" and "\\" not in text else None if key.type == "string" else text
