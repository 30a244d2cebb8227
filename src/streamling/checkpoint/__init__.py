"""Checkpoints: markers travel with the data, sinks acknowledge them, positions are stored when all have.

No Spark in here, and no time or I/O that does not come in from outside.
"""
