"""Replay recordings through the application: tapes to a log, or a log against the current code."""
