"""A benchmark of memory for coding agents: what of a recorded session can still be answered from its context."""
