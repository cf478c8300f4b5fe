"""The fixtures of the client tests: the programs, one server, and a workspace for each client."""

from tests.clients.conftest import agent, programs, server, workspace

__all__ = ["agent", "programs", "server", "workspace"]
