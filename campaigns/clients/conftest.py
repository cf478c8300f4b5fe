"""The programs that the client tests install."""

from tests.clients.conftest import programs

__all__ = ["programs"]
