"""Recall of recorded content: search, quoting, memory calls, restored objects."""
