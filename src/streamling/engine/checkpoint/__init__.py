"""Checkpoints: markers travel with the data, sinks acknowledge them, and positions are stored when all sinks have.

This package does not use Spark; the clock and the state backend are arguments.
"""
