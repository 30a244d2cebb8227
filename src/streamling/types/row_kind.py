"""The column with the kind of each row."""

from __future__ import annotations

from typing import Final

#: ``i`` inserted, ``u`` updated, ``d`` deleted; every batch has this column
OP_COLUMN: Final = "_gs_op"
