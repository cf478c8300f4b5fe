"""A provider on loopback: scripted, strict about the rules of its APIs; for tests, the demo and replay.

It speaks Messages, Chat Completions and Responses. One script answers all three: rules see a request through one view
(`choosing.py`), and each dialect judges (`rules*.py`) and writes (`reply*.py`) for itself, independent of the proxy's
code. ``python -m mnemosyne_lab.provider`` runs it on its own. `rules.violations` judges a request without any server.
"""

from mnemosyne_lab.provider.cache import LocalServer
from mnemosyne_lab.provider.script import Script, from_data
from mnemosyne_lab.provider.server import Standin, open_standin

__all__ = ["LocalServer", "Script", "Standin", "from_data", "open_standin"]
