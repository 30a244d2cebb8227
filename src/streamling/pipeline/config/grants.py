"""Declares what the `config` of a pipeline on a server may set. Without a declaration, a setting is the server's.

Used beside the setting, as ``json_schema_extra``. Settings of a section that share a ``connection`` lead to one system:
a pipeline that changes any of them goes there without the credentials of the server.
"""

from __future__ import annotations

from typing import Final

from pydantic.config import JsonDict

#: a pipeline sets any value
FREE: Final[JsonDict] = {"pipeline": "any"}
#: a pipeline may lower the server's value
AT_MOST: Final[JsonDict] = {"pipeline": "at most"}
#: the same, with the limit of rows in one batch
AT_MOST_ROWS: Final[JsonDict] = {**AT_MOST, "limit": "record_batch_size"}
#: a pipeline sets any value that is not below the limit of the server
AT_LEAST: Final[JsonDict] = {"pipeline": "at least"}


def address(connection: str) -> JsonDict:
    """Mark a setting that says where a connection leads: hosts, ports, URLs."""
    return {**FREE, "connection": connection, "part": "address"}


def protection(connection: str) -> JsonDict:
    """Mark a setting that says how a connection is protected: encryption, and what proves the identity of the
    server."""
    return {**FREE, "connection": connection, "part": "protection"}


def credential(connection: str) -> JsonDict:
    """Mark a setting that proves who connects."""
    return {**FREE, "connection": connection, "part": "credential"}


def credential_file(connection: str) -> JsonDict:
    """Mark a file of the server that belongs to its credentials, or to the address that they are for: a pipeline cannot
    name files, and a connection that it changes does not use this one."""
    return {"connection": connection, "part": "credential"}
