"""Spark helpers for operators: masters, scratch folders, functions over Arrow, counters in plans."""

from streamling.builtins import Builtin

BUILTIN = Builtin(__name__, java="java", java_package="kafka")  # with which all of our classes are compiled
