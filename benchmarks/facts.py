"""How many decisions and standing sentences of recorded sessions become entries of the memory across sessions.

``data/facts.json`` has labels: a large language model read the sessions and quoted each decision, each proposal of the
assistant that the user accepted, and each standing sentence of a user, before the code that is measured here. Each
session is played through the real actors, with a hook that reports its prompts, and with a helper model that may return
a labelled text only if the prompt contains it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio
from trio.testing import wait_all_tasks_blocked

from benchmarks.answers import plain
from benchmarks.harness import Group, Row, Server, single
from benchmarks.recordings import ALL, SESSIONS, list_raw
from benchmarks.replies import reply_in_one
from mnemosyne.actors.turn import TurnOpener
from mnemosyne.domain.cost.prices import Price, Tokens
from mnemosyne.domain.helper.model import FREE, Completion, HelperPrompt
from mnemosyne.domain.knowledge.knowledge_store import KnowledgeStore
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.wire.messages import MESSAGES
from mnemosyne.domain.wire.submitted import hash_prompt
from mnemosyne.services.knowledge import KnowledgeService, WriteStamp
from tests.actors.support import OK
from tests.actors.support import headers as headers_of
from tests.http.test_learned_facts import reading
from tests.scripted_helper import Label, answer_by_labels
from tests.services.talking import body

LABELS = Path(__file__).parent / "data" / "facts.json"
INSERTED = ("<", "[Request interrupted", "Caveat:", "Base directory for this skill:", "This session is being continued")
"""Beginnings of the texts that Claude Code inserted in these sessions: its hook reported none of them."""

ENTRY, FOUND, EARLY, SHOWN = "entries", "found by a search", "shown unconfirmed", "shown once confirmed"
UNSENT = "never sent to the helper"

QUIET, LATER, FOLDER = 0.3, 10**12, "/home/ada/app"
"""Seconds without any work after which memory has learned everything; the time of questions; the sessions' folder."""


@attrs.define(eq=False)
class LabelledHelper:
    """A helper model that answers with the labelled texts in its prompt, except in the list of known entries."""

    labels: Sequence[Label]
    sent: list[str] = attrs.field(factory=list)
    name: str = "labels"
    price: Price = FREE

    async def complete(self, prompt: HelperPrompt) -> Completion:
        await trio.lowlevel.checkpoint()
        self.sent.append(plain(prompt.user))
        messages = [{"role": "user", "content": prompt.user.partition(" known entries\n")[0]}]
        asked = {"system": prompt.system, "messages": messages, "output_config": {"format": {"schema": prompt.schema}}}
        answer = answer_by_labels(self.labels)("/messages", asked)
        assert answer is not None
        return Completion(json.loads(answer[1])["content"][0]["text"], Tokens(input=9, output=9))

    async def check(self) -> None:
        return


def _submitted(message: Mapping[str, Any]) -> Iterator[str]:
    """The prompts in a message, as far as the recording shows: it has no frames around those in mid-turn."""
    for block in message["content"]:
        if block["type"] == "text" and not block["text"].lstrip().startswith(INSERTED):
            yield block["text"]


async def play(opener: TurnOpener, session: Mapping[str, Any]) -> None:
    """Play the turns of a session that begin with a prompt; the other ones add nothing that is learned."""
    assert opener.owners is not None
    system = [{"type": "text", "text": f"Working directory: {FOLDER}"}]
    for turn in session["turns"]:
        history, name = session["messages"][: turn["msg"]], session["name"]
        prompts = [*_submitted(history[-1])]
        for prompt in prompts:
            opener.owners.present(name, hash_prompt(prompt), interactive=True)
        if prompts:
            opened = opener.open_turn(headers_of(name), body(history, system=system), MESSAGES, None, Mode.OBSERVE)
            await opened.note_begun()
            await opened.note_finished(OK, reply_in_one(session["messages"][turn["msg"]], turn["msg"]))
    await wait_all_tasks_blocked(QUIET)


async def find(session: Mapping[str, Any], labels: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The kind of each label of a session with each of its outcomes."""
    helper, found = LabelledHelper([Label("facts", each["text"]) for each in labels]), list[tuple[str, str]]()
    async with reading(helper) as stage:
        await play(stage.process.opener, session)
        store = KnowledgeStore(stage.log, stage.process.journal)
        service = KnowledgeService(store, "t", project=FOLDER.rpartition("/")[2])
        for label in labels:
            outcomes = await _outcomes(service, label["text"])
            if not any(plain(label["text"]) in sent for sent in helper.sent):
                outcomes.append(UNSENT)
            found += [(label["kind"], outcome) for outcome in ("all", *outcomes)]
    return found


async def _outcomes(service: KnowledgeService, text: str) -> list[str]:
    """What memory does with a label."""

    async def is_told() -> bool:
        block = await service.compose_block(text, LATER, str)
        return block is not None and plain(text) in plain(block.text)

    entries = [each.entry for each in await service.list_entries(LATER) if plain(text) in plain(each.entry.content)]
    if not entries:
        return []
    first, found = entries[0], await service.recall(text, LATER)
    outcomes = {ENTRY: True, FOUND: any(each.entry.id == first.id for each in found)}
    outcomes[EARLY] = await is_told() and not first.is_confirmed
    await service.confirm(first.id, WriteStamp(LATER, f"confirm {first.id}"))
    outcomes[SHOWN] = await is_told()
    return [outcome for outcome, happened in outcomes.items() if happened]


async def measure(sessions: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Row]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for session in list_raw(ALL, names=sessions):
        split = "development" if session.get("developer") == "336605" else "held out"
        counts.update((kind, split, outcome) for kind, outcome in await find(session, sessions[session["name"]]))
    totals = {key[:2]: count for key, count in counts.items() if key[2] == "all"}
    goals = {ENTRY: None, FOUND: None, EARLY: 0, SHOWN: None, UNSENT: None}
    return [
        single(f"{kind}, {split}, of {total}", outcome, "", counts[kind, split, outcome], goal)
        for (kind, split), total in sorted(totals.items())
        for outcome, goal in goals.items()
    ]


def facts(servers: Sequence[Server], quick: bool) -> list[Row]:
    """Labelled texts that become entries, that a search finds, and that a later session gets."""
    labelled = json.loads(LABELS.read_text(encoding="utf-8"))["sessions"] if SESSIONS.is_dir() else []
    names = {each["name"]: each["labels"] for each in labelled if not quick or each["name"].startswith("tau")}
    return trio.run(measure, names)


GROUP = Group("facts", (), {"prompts": facts}, by_default=False)
