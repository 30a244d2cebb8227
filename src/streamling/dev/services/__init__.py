"""Real local services without Docker, for development and tests."""
