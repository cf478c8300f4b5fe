"""A provider on loopback: scripted, strict about the rules of its APIs; for tests, the demo and replay.

It speaks Messages, Chat Completions and Responses. One script answers all three: rules see a request through one view
(`view.py`), and each dialect judges (`rules*.py`) and writes (`reply*.py`) for itself, independent of the proxy's code.

``open_standin(script)`` runs it in the same process; ``python -m mnemosyne_lab.provider`` runs it on its own. A script
is plain data (see `script.py`); `rules.violations` judges a request without any server.
"""

from mnemosyne_lab.provider.cache import LocalServer
from mnemosyne_lab.provider.reading import Violation
from mnemosyne_lab.provider.rules import violations
from mnemosyne_lab.provider.script import Script, from_data, load
from mnemosyne_lab.provider.server import HttpExchange, Standin, open_standin

__all__ = [
    "HttpExchange",
    "LocalServer",
    "Script",
    "Standin",
    "Violation",
    "from_data",
    "load",
    "open_standin",
    "violations",
]
