"""Feeds what was recorded through the application again: tapes in, a log out; or a log against today's code."""
