"""Which sessions changed since somebody looked: each once, in the order in which they first did."""

from collections import OrderedDict
from uuid import UUID

import trio

from mnemosyne.actors.messages import Identity

NOTED = 1_024
"""Sessions that are noted at most. The oldest one goes then: it is noted again as soon as it changes again."""


class Changes:
    """A list that never waits for its reader. There is one reader."""

    def __init__(self) -> None:
        self._noted: OrderedDict[UUID, Identity] = OrderedDict()
        self._some = trio.Event()

    def note(self, identity: Identity) -> None:
        """A session changed."""
        self._noted.setdefault(identity.stream, identity)
        if len(self._noted) > NOTED:
            self._noted.popitem(last=False)
        self._some.set()

    async def next(self) -> Identity:
        """Wait for a session that changed, and take it off the list."""
        while not self._noted:
            self._some = trio.Event()
            await self._some.wait()
        return self._noted.popitem(last=False)[1]
