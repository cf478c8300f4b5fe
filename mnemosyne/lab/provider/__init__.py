"""A provider on loopback: scripted, strict about the rules of the Messages API; for tests, the demo and replay.

``open_standin(script)`` runs it in the same process; ``python -m mnemosyne.lab.provider`` runs it on its own. A script
is plain data (see `script.py`); `rules.violations` judges a request without any server.
"""

from mnemosyne.lab.provider.rules import Violation, violations
from mnemosyne.lab.provider.script import Script, from_data, load
from mnemosyne.lab.provider.server import HttpExchange, Standin, open_standin

__all__ = ["HttpExchange", "Script", "Standin", "Violation", "from_data", "load", "open_standin", "violations"]
