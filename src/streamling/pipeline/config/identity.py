"""The default `application_id`: the name of a pipeline in the state, in consumer groups and in metrics."""

from __future__ import annotations

from pathlib import Path

#: the name of every pipeline before default identities existed
LEGACY_APPLICATION_ID = "local_app_v1"


def default_identity(file: str, name: str, folder: Path) -> str:
    """Return the ``name`` in the file, otherwise its path below ``folder``, the working directory, without its
    extension. So two files in one folder have two identities, and the folder can be moved.

    >>> default_identity("daily/orders.yaml", "", Path("/srv/shop"))
    'daily.orders'
    """
    if name:
        return name
    path = Path(folder, file)
    if path.is_relative_to(folder):
        path = path.relative_to(folder)
    return ".".join(part for part in path.with_suffix("").parts if part not in ("/", ".", ".."))
