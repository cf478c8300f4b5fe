"""Recognizes requests of the owner of the memory beyond sessions, and prompts that the owner submitted: a request with
another key on the same port is a stranger's, and much text with the user's role comes from files and programs.
"""

from collections.abc import Callable, Iterable

import attrs
import trio

from mnemosyne.bounded import Lru
from mnemosyne.domain.segmentation.authors import list_prompt_blocks
from mnemosyne.domain.session.events import SubmittedBlock
from mnemosyne.domain.wire.submitted import hash_prompt
from mnemosyne.domain.wire.transcript import Transcript
from mnemosyne.memory_key import MemoryKey

SESSIONS_HELD = 1_000
"""Number of sessions remembered whose owner was presented and that have not sent a request since."""

PROMPTS_HELD = 1_000
"""Number of prompts remembered that a hook vouched for and that have not arrived since."""

PROMPT_SECONDS = 120.0
"""How long a prompt may take from the hook to the request that contains it. Claude Code calls the hook when the user
sends a prompt, also in the middle of a turn; then the prompt waits for the running command, 120 seconds by default.
"""


@attrs.frozen
class MemoryClient:
    """The sender of a request as the memory knows it. ``is_owner``: it proved ownership, or its key or a proxy names
    its tenant; otherwise the log says whether its ``fingerprint`` is admitted. None: it shows no credential.
    """

    is_owner: bool
    fingerprint: str | None = None


OWNER = MemoryClient(is_owner=True)


@attrs.frozen
class _Vouched:
    until: float
    interactive: bool


@attrs.frozen
class MemoryOwners:
    """Recognizes owners by the ``key`` of a data directory. ``clock`` gives seconds. Nothing here is stored."""

    key: MemoryKey
    clock: Callable[[], float] = trio.current_time
    _presented: Lru[str, bool] = attrs.field(factory=lambda: Lru(SESSIONS_HELD), init=False)
    _vouched: Lru[tuple[str, str], _Vouched] = attrs.field(factory=lambda: Lru(PROMPTS_HELD), init=False)

    def present(self, session: str, prompt: str | None = None, *, interactive: bool = False) -> None:
        """Accept the next request of a session as the owner's, and ``prompt``, a hash, as one that the user submits in
        it. A hook calls this, since it cannot add a header to its client's requests.
        """
        self._presented.put(session, True)
        if prompt is not None:
            self._vouched.put((session, prompt), _Vouched(self.clock() + PROMPT_SECONDS, interactive))

    def find_client(self, headers: Iterable[tuple[str, str]], session: str | None) -> MemoryClient:
        """The sender of a request with these headers, in the session that they name."""
        given = tuple(headers)
        is_presented = session is not None and self._presented.pop(session) is not None
        return MemoryClient(is_presented or self.key.is_presented(given), self.key.fingerprint_of(given))

    def vouch_in(self, session: str | None) -> Callable[[Transcript], SubmittedBlock | None]:
        """A function for one request of a session that finds its submitted block. Its first call uses up the hash of
        that block; the others return the same.
        """
        found: list[SubmittedBlock | None] = []

        def find(read: Transcript) -> SubmittedBlock | None:
            if not found:
                found.append(self._take(session, read) if session is not None else None)
            return found[0]

        return find

    def _take(self, session: str, read: Transcript) -> SubmittedBlock | None:
        for message, block, text in list_prompt_blocks(read):
            vouched = self._vouched.pop((session, hash_prompt(text)))
            if vouched is not None and self.clock() < vouched.until:
                return SubmittedBlock(message=message, block=block, interactive=vouched.interactive)
        return None
