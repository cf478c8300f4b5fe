"""AGGREGATE: a semantic object and what each branch shows of it."""
