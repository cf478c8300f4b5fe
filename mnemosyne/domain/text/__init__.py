"""Properties of a text: its words, its entities, its passages, and lines that describe it."""
