"""Spark helpers for operators: masters, scratch folders, functions over Arrow, counters in plans."""
