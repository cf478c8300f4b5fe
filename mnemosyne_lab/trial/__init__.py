"""Paired tasks with and without memory: whether an agent is as good with it, said as a statistic."""
