# Creates the table `orders` with a year of orders, and the table `kafka_offsets`, which says how much of the topic it has.
set -e
. .streamling/dev.env

query() {
  curl --silent --show-error --fail-with-body "$STREAMLING__CLICKHOUSE_SOURCE__URL" --data-binary "$1" \
    --user "$STREAMLING__CLICKHOUSE_SOURCE__USER:$STREAMLING__CLICKHOUSE_SOURCE__PASSWORD"
}

query "CREATE TABLE orders (
  id Int64, customer String, item String, quantity Int32, unit_price Decimal(10, 2), ordered_at DateTime64(3)
) ENGINE = ReplacingMergeTree ORDER BY id"

# 3 million orders, one every ten and a half seconds of 2025
query "INSERT INTO orders SELECT
  number + 1,
  ['Ada', 'Jonas', 'Mei', 'Luis'][number % 4 + 1],
  ['tea', 'coffee beans', 'kettle', 'grinder', 'espresso machine'][number % 5 + 1],
  number % 3 + 1,
  [4.5, 12.9, 59, 89.95, 349][number % 5 + 1],
  toDateTime64('2025-01-01 00:00:00', 3) + intDiv(number * 10512, 1000)
FROM numbers(3000000)"

# the first two messages of the topic have been loaded, so the next one is at offset 2
query "INSERT INTO orders VALUES
  (3000001, 'Ada', 'tea', 2, 4.50, '2026-01-01 10:00:00'),
  (3000002, 'Jonas', 'espresso machine', 1, 349.00, '2026-01-01 10:05:00')"
query "CREATE TABLE kafka_offsets (topic String, partition Int32, offset UInt64)
ENGINE = ReplacingMergeTree(offset) ORDER BY (topic, partition)"
query "INSERT INTO kafka_offsets VALUES ('orders', 0, 2)"

query "SELECT count(), min(ordered_at), max(ordered_at) FROM orders"
