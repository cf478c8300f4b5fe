"""What is tried and shown: a stand-in provider, evaluation, trials, the demo. The product does without it."""
