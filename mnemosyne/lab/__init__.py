"""What is tried and shown: a stand-in provider, evaluation, replay, the demo. Imported by the command line alone."""
