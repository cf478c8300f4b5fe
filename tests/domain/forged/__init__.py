"""Forged decisions, drawn by a seed: words of an attacker's, in whatever may carry them into a conversation."""
