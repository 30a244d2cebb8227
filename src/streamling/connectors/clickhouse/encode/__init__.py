"""Converts Arrow columns to arrays that ClickHouse reads into its columns without changing a value.

ClickHouse itself wraps integers that are too large, clamps dates and replaces NULL by a default. Here such values are
errors. Everything is done by Arrow kernels; no row passes through Python, except in text made of nested values.
"""
