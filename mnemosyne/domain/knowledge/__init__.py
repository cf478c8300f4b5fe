"""AGGREGATE: cross-session knowledge: the memory of a project, and its user's preferences."""
