"""The demo: a managed session in a minute, by a scripted agent and a scripted provider around the real proxy.

``story`` has the screenplay and its data, ``tools`` and ``agent`` a minimal coding agent, ``witness`` reads the event
log for what happened, ``stage`` prints it, and ``play`` runs all of them.
"""
