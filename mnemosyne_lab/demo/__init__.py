"""The demo: a small story of a bug, played by a scripted agent and a scripted provider around the real proxy.

``story`` has the screenplay and its data, ``tools`` and ``agent`` a minimal coding agent, ``witness`` reads the event
log while it grows, ``stage`` prints both in two columns, ``play`` runs all of them, and ``tour`` shows the record with
ordinary commands.
"""
