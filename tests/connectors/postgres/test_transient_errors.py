from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from streamling.connectors.postgres.transient_errors import is_transient


@pytest.mark.parametrize(
    "error",
    [
        errors.AdminShutdown("x"),
        errors.CannotConnectNow("x"),
        errors.ConnectionFailure("x"),
        errors.DeadlockDetected("x"),
        errors.SerializationFailure("x"),
        errors.TooManyConnections("x"),
        errors.DiskFull("x"),
        errors.QueryCanceled("canceling statement due to statement timeout"),
        errors.LockNotAvailable("x"),
        errors.ReadOnlySqlTransaction("x"),
        TimeoutError("x"),
        psycopg.OperationalError("server closed the connection unexpectedly"),
        psycopg.OperationalError("connection refused"),
        psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"),
        psycopg.OperationalError("connection failed: FATAL:  the database system is not yet accepting connections"),
        psycopg.OperationalError('connection failed: FATAL:  too many connections for role "x"'),
        psycopg.OperationalError("connection failed: session is read-only"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
def test_transient_errors(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.UndefinedColumn("x"),
        errors.UndefinedTable("x"),
        errors.UniqueViolation("x"),
        errors.NotNullViolation("x"),
        errors.NumericValueOutOfRange("x"),
        errors.InsufficientPrivilege("x"),
        errors.InvalidPassword("x"),
        psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "x"'),
        psycopg.OperationalError('connection failed: FATAL:  database "x" does not exist'),
        psycopg.OperationalError("connection failed: server does not support SSL, but SSL was required"),
        psycopg.OperationalError("connection failed: SSL error: certificate verify failed"),
        psycopg.ProgrammingError("the query has 0 placeholders but 1 parameters were passed"),
        ValueError("x"),
    ],
    ids=lambda error: f"{type(error).__name__} {error}",
)
def test_permanent_errors(error: Exception) -> None:
    assert not is_transient(error)
