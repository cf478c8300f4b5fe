"""How the model manages its memory: tool schemas, cleanup tags, paged tools."""
