"""Streamling: sources → transforms → sinks in one YAML file, at least once, on Spark."""

__version__ = "0.1.0"
