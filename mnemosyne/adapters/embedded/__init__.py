"""PostgreSQL from a wheel: a server of our own in the data directory."""
