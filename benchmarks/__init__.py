"""Benchmarks, each with a reference for comparison: ``python -m benchmarks``."""
