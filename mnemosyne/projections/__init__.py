"""Read models: everything that people look up, kept from the log, and thrown away and rebuilt at will."""
