"""Implementations of ports (``domain/ports.py``) by databases, HTTP clients and files."""
