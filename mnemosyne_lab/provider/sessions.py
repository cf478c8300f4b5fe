"""Rule R10: within one session the tools never change.

A change costs the whole prompt cache and every thinking signature (Messages API documentation, prompt caching). Real
clients may still do it, so it is noted and never refused. Requests without tools are side calls and do not count.
"""

import hashlib
from collections.abc import Mapping

import orjson

from mnemosyne_lab.provider.reading import Headers, Json, Violation, session_key


class SessionWatch:
    """Remembers the tools of every (session, agent), as a hash for each tool."""

    def __init__(self) -> None:
        self._tools: dict[tuple[str, str], dict[str, bytes]] = {}

    def look(self, tools: Mapping[str, Json], headers: Headers) -> list[Violation]:
        """The breaches that these tools, by name, add to what their session sent before."""
        key = session_key(headers)
        now = {
            name: hashlib.sha256(
                orjson.dumps({field: value for field, value in tool.items() if field != "cache_control"})
            ).digest()
            for name, tool in tools.items()
        }
        if key is None or not now:
            return []
        before = self._tools.get(key, now)
        self._tools[key] = now
        changes = {
            "added": now.keys() - before.keys(),
            "removed": before.keys() - now.keys(),
            "reworded": {name for name in now.keys() & before.keys() if now[name] != before[name]},
            "reordered": set() if list(now) == list(before) or now.keys() != before.keys() else {"all"},
        }
        return [
            Violation("R10", f"tools {change} within session {key[0]}: {', '.join(sorted(names))}", "tools")
            for change, names in changes.items()
            if names
        ]
