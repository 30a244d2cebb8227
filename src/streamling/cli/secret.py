"""`secret set|list|delete|rotate`: the secrets of the store, here or on a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click

from streamling.cli._server import ServerClient
from streamling.cli._server_options import address_options, connect
from streamling.cli.canvas import echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import (
    EXIT_CODES,
    SuggestingGroup,
    config_option,
    debug_option,
    env_file_option,
    json_option,
)
from streamling.errors import StreamlingError
from streamling.redaction import add_secrets

if TYPE_CHECKING:
    from streamling.pipeline.secrets.store import SecretStore

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=SuggestingGroup, epilog=EXIT_CODES)
def secret() -> None:
    """Store secrets that pipeline files name as ${secret:NAME}.

    The values are encrypted in the file secret_store.path (./secrets.enc) with the key in secret_store.key_file, which
    is created on first use, or with STREAMLING__SECRET_STORE__KEY. A secret of the configuration (secrets.<name>) takes
    precedence. With --server or STREAMLING_SERVER, the commands change the store of that server.

    Values are read from standard input or a prompt, never from arguments, which other users can see. No command prints
    a value. Names are not case-sensitive; `-` and `.` are the same as `_`.

    \b
    Examples:
      streamling secret set api_key
      streamling secret set tls_key < key.pem
      streamling secret list --server http://127.0.0.1:4195
      streamling secret rotate
    """


class _RemoteStore:
    """The store of a server."""

    def __init__(self, server: ServerClient) -> None:
        self._server = server

    def names(self) -> list[str]:
        return [str(name) for name in self._server.get("/secrets")["items"]]

    def set(self, name: str, value: str) -> None:
        self._server.send("PUT", f"/secrets/{quote(name, safe='')}", {"value": value})

    def delete(self, name: str) -> bool:
        self._server.send("DELETE", f"/secrets/{quote(name, safe='')}")
        return True


def _store_options(function: F) -> F:
    """Add the options that name the store; the command receives it as ``store``."""

    @wraps(function)
    def call(
        *args: Any, server: str | None, token: str | None, token_file: Path | None, config_name: str | None, **rest: Any
    ) -> Any:
        remote = None if server is None else _RemoteStore(connect(server, token, token_file))
        return function(*args, store=remote or _local_store(config_name), **rest)

    wrapped: Any = debug_option(env_file_option(config_option(call)))
    named: F = address_options("Use the secrets of this server instead of the file.")(wrapped)
    return named


def _local_store(config_name: str | None) -> SecretStore:
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config
    from streamling.pipeline.secrets.store import SecretStore

    configure_logging("text", "warn")
    return SecretStore.of(load_config(config_name or "config", cwd=Path.cwd(), env=os.environ), os.environ)


@secret.command("set", epilog=EXIT_CODES)
@click.argument("name")
@_store_options
def set_(store: SecretStore | _RemoteStore, name: str, debug: bool) -> int:
    """Store the value of NAME, read from standard input or a prompt. One line break at the end is not part of it.

    Pipelines use a changed value from their next start on.

    \b
    Examples:
      streamling secret set api_key
      printf %s "$VALUE" | streamling secret set api_key
      streamling secret set tls_key < key.pem
    """
    value = _read_value(name)
    add_secrets([value])
    store.set(name, value)
    click.echo(f"stored the secret '{name}'", err=True)
    return ExitCode.OK


def _read_value(name: str) -> str:
    if sys.stdin.isatty():
        prompted: str = click.prompt(f"Value of '{name}'", hide_input=True, confirmation_prompt=True, err=True)
        return prompted
    try:
        value = sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise StreamlingError.user(
            f"the value of the secret '{name}' is not UTF-8 text", remedy="store binary data as base64"
        ) from None
    return value.removesuffix("\n").removesuffix("\r")


@secret.command("list", epilog=EXIT_CODES)
@json_option("Print a list of names as JSON.")
@_store_options
def list_(store: SecretStore | _RemoteStore, as_json: bool, debug: bool) -> int:
    """List the names of the stored secrets.

    \b
    Example:
      streamling secret list
    """
    names = store.names()
    if as_json:
        echo_json(names)
    elif not names:
        click.echo("there are no secrets", err=True)
    else:
        for name in names:
            click.echo(name)
    return ExitCode.OK


@secret.command(epilog=EXIT_CODES)
@click.argument("name")
@_store_options
def delete(store: SecretStore | _RemoteStore, name: str, debug: bool) -> int:
    """Delete a secret. Pipelines that name it cannot start afterwards.

    \b
    Example:
      streamling secret delete api_key
    """
    if not store.delete(name):
        raise StreamlingError.user(f"there is no secret '{name}'", remedy="streamling secret list")
    click.echo(f"deleted the secret '{name}'", err=True)
    return ExitCode.OK


@secret.command(epilog=EXIT_CODES)
@config_option
@env_file_option
@debug_option
def rotate(config_name: str | None, debug: bool) -> int:
    """Encrypt all secrets of the file with a new key.

    The new key becomes the first line of the key file. Older keys stay below it, because other stores may use them:
    delete those lines when none does. If the key is in STREAMLING__SECRET_STORE__KEY, set the variable to NEW,OLD
    first. A server that uses the same files continues without a restart.

    \b
    Example:
      streamling secret rotate
    """
    count = _local_store(config_name).rotate()
    click.echo(f"encrypted {count} {'secret' if count == 1 else 'secrets'} with a new key", err=True)
    return ExitCode.OK
