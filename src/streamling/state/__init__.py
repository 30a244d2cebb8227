"""Where a pipeline remembers how far it has come: the contract of a backend, memory and a SQLite file."""
