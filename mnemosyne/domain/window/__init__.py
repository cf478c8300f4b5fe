"""What goes upstream, and when it changes: planning, epochs, the upstream history."""
