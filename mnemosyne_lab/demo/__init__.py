"""The demo: a small story of a bug, played by a scripted agent and a scripted provider around the real proxy.

``story`` is the screenplay and its data, ``tools`` and ``agent`` a coding agent as small as can be, ``witness`` reads
the event log while it grows, ``stage`` writes both beside each other, ``play`` lets them work together, and ``tour``
shows what was recorded with the commands that anybody would use.
"""
