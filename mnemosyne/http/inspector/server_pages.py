"""What managing saved in all, how the server and its database do, and with which settings."""

from collections.abc import Mapping
from typing import Any

from mnemosyne.http.inspector.holdings import Holdings, View
from mnemosyne.services.savings import read_savings


async def show_savings(holdings: Holdings) -> tuple[str, Mapping[str, Any]]:
    """What each session used and would have used without us."""
    found = await read_savings(holdings.models)
    return "savings.html", {"found": found, "total": found.total}


async def show_server(holdings: Holdings) -> tuple[str, Mapping[str, Any]]:
    """Database, index, disk, versions and settings."""
    return "server.html", {"health": await holdings.health(), "settings": holdings.shown}


VIEWS: Mapping[str, View] = {"/-/savings": show_savings, "/-/server": show_server}
