"""What everything that talks to a Postgres server shares: connecting, and telling errors that pass from others."""
