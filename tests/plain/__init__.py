"""The log and the projections in plain Python, for tests and tools."""
