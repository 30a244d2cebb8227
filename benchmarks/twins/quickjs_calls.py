"""A function over batches of JSON rows through plain `quickjs-rs`: text in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from quickjs_rs import Runtime


def run(function: str, batches: Sequence[str]) -> int:
    """Pass every batch through ``function``; returns the number of characters of the results."""
    with Runtime(memory_limit=64 << 20) as runtime, runtime.new_context(timeout=60.0) as context:
        call = context.eval_handle(f"""(() => {{
          const process = {function};
          return (text) => JSON.stringify(JSON.parse(text).map(process));
        }})()""")
        return sum(len(call.call(batch).to_python()) for batch in batches)
