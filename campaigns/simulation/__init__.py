"""Runs that a seed draws whole. Each ``trio.sleep`` in here is of a run's own clock, which jumps (``schedule``)."""
