"""Helper models that write summaries."""
