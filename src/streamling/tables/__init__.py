"""Dynamic tables: sets of texts that SQL looks values up in, kept in memory or in Postgres."""
