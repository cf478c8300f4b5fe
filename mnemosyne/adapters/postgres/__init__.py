"""PostgreSQL: the event log, contents, projections and the index of objects."""
