"""Calling HTTP endpoints with rows: the client of a pipeline, payloads, and what answers mean."""
