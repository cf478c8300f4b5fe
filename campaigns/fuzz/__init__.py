"""Coverage-guided fuzzing of everything that reads foreign input: `make fuzz`."""
