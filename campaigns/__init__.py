"""Long campaigns. `make test` runs a short case of each, and `make soak` runs them in full."""
