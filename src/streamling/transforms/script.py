"""Script transform: a JavaScript or TypeScript function per row, in a sandbox."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.pipeline.options import Downstream, Parallel, Rebatched, TransformOptions
from streamling.pipeline.scalars import PrimaryKey, folded
from streamling.pipeline.typenames import TypeName

_DEFAULT_FLUSH_SECONDS = 1.0
_ALIASES = {"js": "javascript", "ts": "typescript"}


def _language(value: object) -> object:
    name = folded(value)
    return _ALIASES.get(name, name) if isinstance(name, str) else name


Language = Annotated[
    Literal["javascript", "typescript"],
    BeforeValidator(_language),
    WithJsonSchema({"enum": ["javascript", "js", "typescript", "ts"]}),
]


class ScriptTransformOptions(Parallel, Rebatched, Downstream, TransformOptions):
    """Rows through a function: it returns the new row, null to drop it, or a list of rows."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"language"})

    primary_key: PrimaryKey = Field(description="Key columns of the output, comma-separated.")
    language: Language = Field(description="Language of the script: javascript (js) or typescript (ts).")
    script: str = Field(min_length=1, description="Text with the function.")
    schema_: dict[str, TypeName] | None = Field(
        default=None,
        alias="schema",
        description="Columns of the output and their types; as the input by default.",
    )

    @property
    def flush_interval(self) -> float | None:
        default = _DEFAULT_FLUSH_SECONDS if self.batch_size else None
        return self.batch_flush_interval if self.batch_flush_interval is not None else default
