"""Imported by every Python process that a test starts while a setting is removed."""

import os

if setting := os.environ.get("STREAMLING_TEST_REMOVED"):
    import pytest
    from tests.effects.removal import remove

    remove(setting, pytest.MonkeyPatch())
