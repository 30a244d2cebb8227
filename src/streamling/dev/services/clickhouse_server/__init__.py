"""The ClickHouse engine of the package `chdb` behind ClickHouse's HTTP interface, for development and tests.

Run it with ``python -m streamling.dev.services.clickhouse_server``; `LocalClickHouse` does.

The server supports what clients use: queries by GET and POST, settings, query parameters, sessions with temporary
tables, external data, all formats of the engine, compressed requests and responses, and errors before and after the
first part of a response. The engine is embedded, so some things are missing: users, roles and policies,
`system.query_log`, ``KILL QUERY`` by the client's `query_id`, the native compression (``compress=1``) and
``client_protocol_version``.

Tests can make requests fail. A POST to ``/_test/faults`` adds a fault for the next requests whose statement contains a
text, GET lists the faults that are left, and DELETE removes them (all with the credentials of a normal request)::

    {"action": "error", "match": "INSERT INTO orders", "code": 252, "name": "TOO_MANY_PARTS", "times": 3}

| Action | Effect |
|---|---|
| `error` | the statement is not run; the response is the error with `code`, `name` and `message` |
| `close_before` | the connection is closed; the statement is not run |
| `close_after` | the statement is run, then the connection is closed without a response |
| `truncate` | the connection is closed after `bytes` bytes of the response's body |
| `exception` | the response has status 200 and `bytes` bytes of its body, then the error as ClickHouse appends it; \
with ``"tagged": false`` as releases before 25.11 do |
| `delay` | nothing but the delay |

Every fault may have `times` (how many requests it applies to; default 1, 0 for all), `skip` (how many matching
requests pass before it; default 0) and `seconds` (a delay before all else). Without `match` it applies to all requests.
"""
