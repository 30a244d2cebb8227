"""The Python API: pipelines that a program starts and stops. Its names are exported by `streamling`."""
