"""The laboratory: stand-in provider, evaluation, trials and demo. The product does not depend on it."""
