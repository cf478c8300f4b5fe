"""How the past is asked: search, quoting, memory calls, objects shown again."""
