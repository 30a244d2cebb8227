from __future__ import annotations

from pathlib import Path

import pytest

from streamling.pipeline.config.identity import default_identity


@pytest.mark.parametrize(
    ("file", "name", "identity"),
    [
        ("pipeline.yaml", "", "pipeline"),
        ("./orders.yml", "", "orders"),
        ("/srv/shop/orders.yaml", "", "orders"),
        ("daily/orders.v2.yaml", "", "daily.orders.v2"),
        ("/etc/pipelines/orders.yaml", "", "etc.pipelines.orders"),
        ("orders.yaml", "shop", "shop"),
    ],
)
def test_every_file_has_its_own_identity(file: str, name: str, identity: str) -> None:
    assert default_identity(file, name, Path("/srv/shop")) == identity
