"""Mnemosyne: a transparent proxy that manages a coding agent's context window as an operating system manages memory."""

__version__ = "0.1.0"
