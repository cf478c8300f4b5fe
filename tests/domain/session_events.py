"""Sample events of a session for tests: of branch ``main``, with fields that a test rarely names."""

from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.objects.events import TurnAssessed
from mnemosyne.domain.ports import Envelope, Recorded
from mnemosyne.domain.session.events import (
    BranchKind,
    BranchOpened,
    Event,
    TurnBegan,
    TurnFinished,
    TurnInterrupted,
    TurnRelation,
)
from mnemosyne.domain.session.ledger_events import TurnAccounted
from mnemosyne.domain.session.round_events import Mode, RoundBegan, RoundFinished
from mnemosyne.domain.wire import recipe

MAIN: dict[str, Any] = {"at": 1, "branch": "main", "turn": 1, "attempt": 1}
_BODY: dict[str, Any] = {"base": 0, "body": b"", "size": 0, "sha256": b"", "stored_sha256": None, "kept": 0}
NO_BYTES = recipe.encode(recipe.change_of(0, (), 0))
"""The change that makes an empty body."""
_NO_REPLY: dict[str, Any] = {"reply": b"", "model": None, "stop_reason": None}


def recorded(*events: Event, first: int = 1) -> list[Recorded[Event]]:
    """The events of one session as its log returns them, from version ``first`` on."""
    return [Recorded(UUID(int=1), at, at, Envelope(event, "c")) for at, event in enumerate(events, first)]


def opened_branch(name: str = "main", parent: str | None = None, *, kept: int = 0, forked_at: int = 0) -> BranchOpened:
    """A main branch, or with a ``parent`` a fork of it."""
    return BranchOpened(
        at=1,
        branch=name,
        kind=BranchKind.FORK if parent else BranchKind.MAIN,
        lane="main",
        agent_id=None,
        parent=parent,
        forked_at=forked_at,
        inherits=parent is not None,
        kept=kept,
    )


def began(turn: int, model: str | None, **changes: Any) -> TurnBegan:
    more: dict[str, Any] = {"chains": (), "echo": None, "echoed_attempt": None, "opaque": None}
    fields = MAIN | {"at": turn, "turn": turn, "model": model, "relation": TurnRelation.CONTINUES, "stream": True}
    return TurnBegan(**fields | _BODY | more | changes)


def finished(turn: int, model: str | None, usage: dict[str, Any], **changes: Any) -> TurnFinished:
    more: dict[str, Any] = {"turn": turn, "status": 200, "message_id": None, "error_type": None, "usage": usage}
    return TurnFinished(**MAIN | _NO_REPLY | more | {"model": model} | changes)


def interrupted(usage: dict[str, Any], **changes: Any) -> TurnInterrupted:
    more: dict[str, Any] = {"status": None, "reply": None, "reason": "left", "usage": usage}
    return TurnInterrupted(**MAIN | more | changes)


def round_began(number: int, **changes: Any) -> RoundBegan:
    return RoundBegan(**MAIN | _BODY | {"round": number, "epoch": 1, "ends": ()} | changes)


def round_finished(number: int, usage: dict[str, Any], **changes: Any) -> RoundFinished:
    more: dict[str, Any] = {"round": number, "usage": usage, "answers": (), "faults": 0, "tokens": 0}
    more["model"] = "claude-opus-5-5"
    return RoundFinished(**MAIN | _NO_REPLY | more | changes)


def assessed(turn: int, tokens: int = 1, branch: str = "main") -> TurnAssessed:
    more: dict[str, Any] = {"open_from": 0, "typed": (), "content": (0, 0), "head": (0, 0), "zone": "normal"}
    return TurnAssessed(at=turn, branch=branch, turn=turn, model=None, tokens=tokens, usable=100_000, **more)


def accounted(turn: int, actual: int, shadow: int, mode: Mode = Mode.MANAGE, **changes: Any) -> TurnAccounted:
    """A turn that wrote ``actual`` tokens to the cache and would have written ``shadow`` without the proxy."""
    event = TurnAccounted(
        at=turn * 10 + 1,
        began=turn * 10,
        branch="main",
        turn=turn,
        attempt=1,
        mode=mode,
        model="claude-opus-4-5",
        rounds=1,
        shadow=Tokens(write_5m=shadow, output=1),
        expected=Tokens(write_5m=actual, output=1),
        actual=Tokens(write_5m=actual, output=1),
        assumed=False,
        estimated=actual,
        counted=actual,
        since=0,
        compacted=False,
        shadow_entries=(),
        wire_entries=(),
        deviates=False,
        far=False,
    )
    return attrs.evolve(event, **changes)


def billed(turn: int, actual: int, shadow: int, mode: Mode = Mode.MANAGE, **changes: Any) -> tuple[object, ...]:
    """A turn as ``accounted`` has it, with its request and its billed reply."""
    account = accounted(turn, actual, shadow, mode, **changes)
    usage = {"input_tokens": 0, "output_tokens": 1, "cache_creation_input_tokens": actual}
    ended = finished(turn, account.model, usage, at=turn * 10 + 1, reply=NO_BYTES)
    return began(turn, account.model, at=account.began, body=NO_BYTES), ended, account


def epoch(turn: int, number: int) -> RoundBegan:
    """The first round of a turn, which begins an epoch."""
    return round_began(1, at=turn * 10, turn=turn, epoch=number, body=NO_BYTES)
