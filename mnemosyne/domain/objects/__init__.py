"""AGGREGATE: a semantic object and the fidelity at which each branch shows it."""
