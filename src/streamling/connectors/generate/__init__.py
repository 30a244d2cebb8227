"""Rows that are made up: for demos, load tests and first steps."""

from streamling.builtins import Builtin

BUILTIN = Builtin(__name__, sources={"generate": "source:GenerateSource"})
