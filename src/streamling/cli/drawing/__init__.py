"""Draws pipelines for `plan --graph`."""
