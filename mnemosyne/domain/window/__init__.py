"""The request sent upstream, and when it changes: planning, epochs, the upstream history."""
