"""Which addresses a process may connect to, for all clients."""
