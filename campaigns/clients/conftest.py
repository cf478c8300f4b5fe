"""The programs that the tests of clients install."""

from tests.clients.conftest import programs

__all__ = ["programs"]
