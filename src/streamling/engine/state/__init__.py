"""Where the positions of a pipeline are stored: the contract of a backend, memory and a SQLite file."""
