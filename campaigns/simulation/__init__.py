"""Runs that are drawn completely from a seed. Each ``trio.sleep`` here uses the run's own jumping clock
(``schedule``).
"""
