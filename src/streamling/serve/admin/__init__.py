"""The HTTP API of a running pipeline: health, metrics, topology, live rows, pause and checkpoint.

`routes.py` makes the routes for any `ObservedPipeline`; a single run serves them under `/admin` (`server.py`).
"""
