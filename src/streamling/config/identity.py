"""What a pipeline is called in the state, in consumer groups and in metrics when `application_id` does not say it."""

from __future__ import annotations

from pathlib import Path

#: what every pipeline was called before it had a name of its own
LEGACY_APPLICATION_ID = "local_app_v1"


def default_identity(file: str, name: str, folder: Path) -> str:
    """The ``name`` that the file gives itself, else its path below ``folder``, the working directory, without its
    ending. So two files in one folder have two identities, and the folder may be moved.

    >>> default_identity("daily/orders.yaml", "", Path("/srv/shop"))
    'daily.orders'
    """
    if name:
        return name
    path = Path(folder, file)
    if path.is_relative_to(folder):
        path = path.relative_to(folder)
    return ".".join(part for part in path.with_suffix("").parts if part not in ("/", ".", ".."))
