"""Bytes that a coverage-guided fuzzer draws, for all that reads what others write: `make fuzz`."""
