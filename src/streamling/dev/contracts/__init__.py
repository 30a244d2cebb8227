"""Contract tests for plugins; plugins import them from `streamling.testing`."""
