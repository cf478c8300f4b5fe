"""AGGREGATE: what outlives a session: the memory of a project, and what its user prefers."""
