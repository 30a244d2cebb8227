"""Under which conditions a record of the catalogue may be changed."""

from __future__ import annotations

from streamling.serve.errors import Refused
from streamling.serve.model import ManagedBy, PipelineKey, PipelineRecord


def existing(record: PipelineRecord | None, key: PipelineKey) -> PipelineRecord:
    """Return ``record``; raises if there is none."""
    if record is None:
        raise Refused("not_found", f"there is no pipeline '{key}'")
    return record


def changeable(record: PipelineRecord | None, key: PipelineKey, managed_by: ManagedBy) -> PipelineRecord:
    """Return ``record``; raises if there is none, or if it may not be changed now."""
    found = existing(record, key)
    check_changeable(found, managed_by)
    return found


def check_changeable(record: PipelineRecord, managed_by: ManagedBy) -> None:
    """Raise if ``record`` is being deleted, or belongs to another side than ``managed_by``."""
    if record.deleting is not None:
        raise being_deleted_error(record)
    check_owner(record, managed_by)


def check_owner(record: PipelineRecord, managed_by: ManagedBy) -> None:
    """Raise if the files of a folder and the API would change the same pipeline."""
    if record.managed_by != managed_by:
        where = "a file of the server's folder" if record.managed_by == "dir" else "the API"
        raise Refused(
            "managed", f"the pipeline '{record.key}' is managed by {where}", "change it there, or use another name"
        )


def check_etag(record: PipelineRecord | None, key: PipelineKey, etag: str | None) -> None:
    """Raise if a change is based on another version than the current one."""
    if etag is None or (record is not None and etag in ("*", record.etag)):
        return
    found = f"has been changed: its version is now {record.etag}" if record is not None else "does not exist"
    raise Refused("changed", f"the pipeline '{key}' {found}", "read it again and repeat the change on that version")


def exists_error(record: PipelineRecord) -> Refused:
    """Return the error for a name that is in use."""
    if record.deleting is not None:
        return being_deleted_error(record)
    return Refused("exists", f"the pipeline '{record.key}' already exists", "use PUT to replace it, or another name")


def being_deleted_error(record: PipelineRecord) -> Refused:
    """Return the error for a change of a pipeline that is being deleted."""
    return Refused("deleting", f"the pipeline '{record.key}' is being deleted", "wait until it has been removed")
