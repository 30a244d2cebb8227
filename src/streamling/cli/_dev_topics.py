"""`dev produce` and `dev consume`: write and read single messages."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from streamling.cli._dev import common_options, local_services, running
from streamling.cli.errors import ExitCode
from streamling.cli.options import EXIT_CODES
from streamling.errors import StreamlingError
from streamling.observe.terminal.streams import write_data

if TYPE_CHECKING:
    from streamling.dev.services.avro import SchemaRegistry
    from streamling.dev.services.services import LocalServices


_BROKERS = "STREAMLING__KAFKA_SOURCE__BROKERS"
_REGISTRY = "STREAMLING__KAFKA_SOURCE__SCHEMA_REGISTRY_URL"


@click.command(epilog=EXIT_CODES)
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--topic", required=True, help="Topic to write to; created if it does not exist.")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=(
        "Avro schema file (.avsc): values are encoded as Avro and the schema is registered. Without it, "
        "values are JSON."
    ),
)
@click.option("--key", default="", metavar="FIELD[,FIELD]", help=("Fields of the message key, joined by ':'."))
@click.option(
    "--op-field",
    default="_gs_op",
    show_default=True,
    metavar="FIELD",
    help="Field that holds the operation (i, u, d); sent as the header dbz.op instead of in the value.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help=("Number of partitions if the topic is created."),
)
@common_options
def produce(
    file: IO[str],
    topic: str,
    schema_file: Path | None,
    key: str,
    op_field: str,
    partitions: int,
    folder: Path,
    config_name: str | None,
    debug: bool,
) -> int:
    """Write the JSON lines of FILE (- for stdin) to a Kafka topic, one message per line.

    The brokers and the schema registry are those of STREAMLING__KAFKA_SOURCE__BROKERS and
    STREAMLING__KAFKA_SOURCE__SCHEMA_REGISTRY_URL if these are set, otherwise the local services.

    With --schema, dates and times may be ISO text, decimals may be numbers or text, and bytes are text of Latin-1
    characters.

    \b
    Examples:
      streamling dev produce orders.jsonl --topic orders --key id
      streamling dev produce orders.jsonl --topic orders --schema orders.avsc --key id --partitions 4
      echo '{"id": 7, "_gs_op": "d"}' | streamling dev produce - --topic orders --key id
    """
    from streamling.dev.services import topics
    from streamling.dev.services.jsonlines import messages

    services = local_services(folder, config_name, debug)
    brokers = _brokers(services)
    encode = _avro_encoder(schema_file, topic, services) if schema_file else None
    if not topics.partition_count(brokers, topic):
        topics.create_topic(brokers, topic, partitions=partitions)
    keys = [field.strip() for field in key.split(",") if field.strip()]
    rows = messages(file, source=file.name, encode=encode, key=keys, op_field=op_field)
    count = topics.produce(brokers, topic, rows)
    elsewhere = "" if services.kafka.running and brokers == services.kafka.brokers else f" on {brokers}"
    click.echo(f"wrote {count} messages to {topic}{elsewhere}", err=True)
    return ExitCode.OK


@click.command(epilog=EXIT_CODES)
@click.option("--topic", required=True, help="Topic to read.")
@click.option("--from-beginning", is_flag=True, help="Read existing messages too, not only new ones.")
@click.option("--max", "limit", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--until-end", is_flag=True, help=("Stop at the end of the topic instead of waiting for Ctrl-C."))
@common_options
def consume(
    topic: str,
    from_beginning: bool,
    limit: int | None,
    until_end: bool,
    folder: Path,
    config_name: str | None,
    debug: bool,
) -> int:
    """Print the messages of a Kafka topic as JSON lines: partition, offset, timestamp, key, op, headers, value.

    The brokers and the schema registry are those that `produce` uses. Avro values are decoded. Does not join a consumer
    group and commits no offsets.

    \b
    Examples:
      streamling dev consume --topic orders
      streamling dev consume --topic orders --from-beginning --until-end | jq .value
    """
    from streamling.dev.services import topics
    from streamling.dev.services.jsonlines import format_message

    services = local_services(folder, config_name, debug)
    brokers = _brokers(services)
    registry = _registry(services) if _REGISTRY in os.environ or services.registry.running else None
    start = None if from_beginning else topics.end_offsets(brokers, topic)
    try:
        for message in topics.consume(brokers, topic, start=start, limit=limit, follow=not until_end):
            write_data(format_message(message, registry))
    except KeyboardInterrupt:
        if until_end:
            raise
    return ExitCode.OK


def _brokers(services: LocalServices) -> str:
    """Return the brokers that a pipeline started in this shell reads from."""
    return os.environ.get(_BROKERS) or running(services.kafka).brokers


def _registry(services: LocalServices) -> SchemaRegistry:
    from streamling.dev.services.avro import SchemaRegistry

    return SchemaRegistry(os.environ.get(_REGISTRY) or running(services.registry).url)


def _avro_encoder(schema_file: Path, topic: str, services: LocalServices) -> Callable[[dict[str, Any]], bytes]:
    from fastavro.schema import SchemaParseException

    from streamling.dev.services.avro import AvroEncoder

    try:
        schema = json.loads(schema_file.read_text(encoding="utf-8"))
        AvroEncoder(schema, 0)  # clearer than the error from the registry
    except (ValueError, SchemaParseException) as error:
        raise StreamlingError.user(f"{schema_file} is not a valid Avro schema: {error}") from None
    return AvroEncoder(schema, _registry(services).register(f"{topic}-value", schema))
