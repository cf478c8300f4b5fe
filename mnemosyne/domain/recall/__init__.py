"""How the past is asked: search, quoting, memory calls, prefetch, goals."""
