"""Read models for all look-ups, derived from the log. They can be deleted and rebuilt at any time."""
