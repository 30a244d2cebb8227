from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


@pytest.fixture
def examples() -> Path:
    """The folder of the example plugins."""
    return EXAMPLES
