"""What the model may call or write to manage its memory: tool schemas, cleanup tags, paged tools."""
