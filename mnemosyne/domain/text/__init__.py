"""What any text is: its words, its entities, its passages, and lines that describe it."""
