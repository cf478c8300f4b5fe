"""Clients whose servers or databases fail, and what must be on record of their replies."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from hashlib import sha256

import attrs
import trio

from mnemosyne.domain.session.events import GapRecorded, TurnBegan, TurnFinished
from mnemosyne_lab.provider import from_data
from tests.app.home import Home
from tests.http.managing import Client, Json, look, model_says, recall, text, think
from tests.waiting import DEADLINE

WINDOW = 16_000
OPTIONS = ("--manage-window", str(WINDOW))
PROMPTS = 4
"""Prompts of a session; then the client begins another."""

LOOKS = [model_says(think(f"I look, {number}."), look(at=number)) for number in range(3)]
DONE = model_says(think("Well."), text("It is there."))
REPLIES = {"manage": [*LOOKS, model_says(think(), recall()), DONE], "observe": [*LOOKS, DONE]}
"""The model's replies to each prompt, by the mode of the server."""

SCRIPTS = {mode: from_data({"rules": [{"replies": replies}]}) for mode, replies in REPLIES.items()}


def result_of(call: Json) -> Json:
    """Two thousand unique tokens."""
    lines = [f"{call['id']} line {line}: value {line * 37 % 1009}" for line in range(160)]
    return {"type": "tool_result", "tool_use_id": call["id"], "content": "\n".join(lines)}


async def _keep_server(client: Client) -> None:
    """Let the client keep its server."""


@attrs.define
class Fleet:
    """Clients that play session after session until ``over``, and repeat each request until its reply is complete."""

    url: str = ""
    pause: Callable[[], float] = lambda: 0.0
    find_server: Callable[[Client], Awaitable[None]] = _keep_server
    """Waits until a server is there, and gives the client its URL."""
    over: bool = False
    completed: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Session and hash of each request whose reply a client received completely."""
    durations: list[tuple[str, float]] = attrs.field(factory=list)
    """The session and the seconds of each completed request, from the first try."""
    firsts: list[float] = attrs.field(factory=list)
    """The seconds of each request until the first byte of its reply's body."""
    failed: Counter[object] = attrs.field(factory=Counter)
    """Number of incomplete or failed replies, by status."""

    async def work(self, name: str) -> None:
        number = 0
        while not self.over:
            client = Client(self.url, session=f"{name}-{number}")
            number += 1
            for prompt in range(PROMPTS):
                if not self.over:
                    await self.ask(client, f"Prompt {prompt} of {client.session}: where is it?")

    async def ask(self, client: Client, prompt: str) -> None:
        """Send a prompt and every requested result."""
        content = [text(prompt)]
        while content:
            await trio.sleep(self.pause())
            client.history.append({"role": "user", "content": content})
            message = await self._persist(client)
            client.history.append({"role": "assistant", "content": message["content"]})
            content = [result_of(block) for block in message["content"] if block["type"] == "tool_use"]

    async def _persist(self, client: Client) -> Json:
        began = trio.current_time()
        with trio.fail_after(DEADLINE):
            while True:
                await self.find_server(client)
                client.bodies.clear()
                with suppress(OSError):
                    message = await client.send()
                    reply = client.replies.pop()
                    assert reply.status in (0, 200, 500, 502, 503, 529), reply.body
                    if reply.status == 200 and not reply.cut and b"event: message_stop\n" in reply.body:
                        self.completed.append((client.session, sha256(client.bodies[0]).digest()))
                        self.durations.append((client.session, trio.current_time() - began))
                        self.firsts.append(reply.first_at - began)
                        return message
                    self.failed["cut" if reply.cut else reply.status] += 1
                await trio.sleep(0.02)  # as clients do

    @property
    def sessions(self) -> set[str]:
        """The sessions with a completed request."""
        return {session for session, _ in self.completed}

    async def check(self, home: Home, sessions: Iterable[str]) -> int:
        """Check that each complete reply of these sessions is recorded exactly once; return the number of gaps."""
        gaps = 0
        for session in sorted(sessions):
            events = await home.events(session)  # which verify
            gaps += sum(isinstance(each, GapRecorded) for each in events)
            ends = [(each.branch, each.turn, each.attempt) for each in events if isinstance(each, TurnFinished)]
            assert len(ends) == len(set(ends)), f"a reply of {session} is on record twice"
            asked = {
                (each.branch, each.turn, each.attempt): each.sha256 for each in events if isinstance(each, TurnBegan)
            }
            seen = Counter(digest for owner, digest in self.completed if owner == session)
            assert not seen - Counter(asked[end] for end in ends), f"a complete reply of {session} is not on record"
        return gaps
