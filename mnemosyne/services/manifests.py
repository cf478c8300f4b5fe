"""The manifest of a turn: the content visible to the model in its request."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

import attrs

from mnemosyne.domain.history import time_travel
from mnemosyne.domain.history.context_view import KnownBlocks, View
from mnemosyne.domain.history.manifest import SHAPE, Known, Manifest, ManifestPage, know_request
from mnemosyne.domain.history.page_layout import METADATA, Layout, lay_out
from mnemosyne.domain.history.time_travel import Attempt, History
from mnemosyne.domain.history.window_contents import WindowContents, list_contents
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.events import Event
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.errors import ContentMissing, NotFound
from mnemosyne.services import contexts, sessions
from mnemosyne.services.sessions import Archive
from mnemosyne.services.unstructuring import members


async def read_manifest(archive: Archive, session: str, branch: str, turn: str | None) -> Manifest:
    """The content visible to the model at a turn in a person's notation, or at a checkpoint; without a round, in the
    first upstream request.

    Raises BadOption, NotFound (also for a request that is not a conversation), ContentForgotten, LogFailed.
    """
    stream, events = await sessions.events_of(archive, session)
    history = time_travel.history_of(str(stream), events)
    return await manifest_of(archive, stream, events, history, history.find(branch, turn))


async def manifest_of(
    archive: Archive,
    stream: UUID,
    events: Sequence[Recorded[Event]],
    history: History,
    attempt: Attempt,
    known_blocks: KnownBlocks | None = None,
) -> Manifest:
    """The manifest of an attempt's request; see ``read_manifest``. ``known_blocks`` as in ``context_view.view``."""
    if attempt.was_replaced:
        attempt = attrs.evolve(attempt, round=attempt.rounds[0])
    found = await contexts.context_of(archive, stream, history, attempt, known_blocks)
    if found.view.opaque is not None:
        raise NotFound(
            f"The request has no manifest, because it cannot be parsed as a conversation: {found.view.opaque}."
        )
    known = know_request(events, attempt)
    layout = lay_out(
        found.rebuilt.body,
        found.view,
        found.client or found.view,
        known.pages,
        await _read_texts(archive, stream, known),
        known.told.text if known.told is not None else None,
    )
    pages = [
        known.make_page(each, attempt, layout)
        for each, (held, _) in known.pages.items()
        if held.places or each in layout.blocks
    ]
    return Manifest(
        stream=stream,
        attempt=attempt,
        sha256=found.rebuilt.sha256,
        view=found.view,
        metadata=_count_metadata(found.view, layout, pages),
        mode=known.mode,
        settings=known.settings,
        assessed=known.assessed,
        epoch=known.epoch,
        pages=pages,
        others=layout.others,
    )


async def read_contents(archive: Archive, session: str, branch: str, turn: str | None) -> WindowContents:
    """What fills the window at a turn, as sent upstream. Raises what ``read_manifest`` raises."""
    return list_contents(await read_manifest(archive, session, branch, turn))


def contents_as_json(contents: WindowContents) -> dict[str, Any]:
    """The contents of a window as JSON, each kind and group with its tokens."""
    kinds = [
        {**members(each, "kind tokens"), "groups": [members(group, "label tokens items") for group in each.groups]}
        for each in contents.kinds
    ]
    return {**members(contents, "branch turn tokens window share", counted="is_counted"), "kinds": kinds}


def _count_metadata(sent: View, layout: Layout, pages: Sequence[ManifestPage]) -> int:
    """The tokens of a request that the proxy's memory added."""
    stubs = (each.object.stub_tokens for each in pages if each.blocks and each.level is Fidelity.STUB)
    ours = {each.number for each in layout.others if each.use in METADATA}
    return sum(stubs) + sum(each.tokens or 0 for number, each in enumerate(sent.blocks) if number in ours)


async def _read_texts(archive: Archive, stream: UUID, known: Known) -> Mapping[str, str]:
    """The renditions of the pages that are shown at one, by id."""
    wanted = {
        each.id: each.renditions[level].text
        for each, level in known.pages.values()
        if level in (Fidelity.DETAILED, Fidelity.COMPACT) and level in each.renditions
    }
    try:
        contents = await archive.contents.fetch(stream, sorted(set(wanted.values())))
    except ContentMissing:
        return {}
    return {each: contents[digest].decode() for each, digest in wanted.items()}


def manifest_as_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON; ``manifest`` is its format version."""
    attempt, settings = manifest.attempt, manifest.settings
    assessed, epoch = manifest.assessed, manifest.epoch
    tools = [each for each in manifest.view.blocks if each.section == "tools"]
    policies = ("window", "strict", "grounding", "restores", "faults", "tool_budget", "tariff")
    return {
        "manifest": SHAPE,
        "session": str(manifest.stream),
        **members(attempt.began, "branch turn attempt"),
        **members(attempt, round="round.began.round"),
        "request": {
            **members(manifest, "sha256 tokens metadata", bytes="view.size", model="attempt.began.model"),
            "ok": manifest.sha256 == attempt.proof,
        },
        "tools": {
            "sha256": sha256(b"".join(each.digest for each in tools)).hexdigest(),
            "tokens": sum(each.tokens or 0 for each in tools),
        },
        "policy": {
            "mode": manifest.mode.value if attempt.round is not None else Mode.OBSERVE.value,
            **{name: getattr(settings, name, None) for name in policies},
        },
        "budget": None if assessed is None else members(assessed, "tokens fixed usable zone"),
        "epoch": None if epoch is None else members(epoch, "turn reason", number="epoch"),
        "effective": members(manifest.effective, "sent", used_later="used"),
        "pages": list(map(_page_as_json, manifest.pages)),
        "others": [members(each, block="number", what="use") for each in manifest.others],
    }


def _page_as_json(page: ManifestPage) -> dict[str, Any]:
    each = page.object
    return {
        **members(each, "id kind stub stale", source="source_key", tokens_in_full="tokens", worth="admission.score"),
        **members(page, "level kept blocks", used_later="is_used", since="move.turn", why="move.cause"),
        "tokens": each.tokens_at(page.level),
        "levels": {level.label: tokens for level in Fidelity if (tokens := each.tokens_at(level)) is not None},
        "pin": None if each.pin is None else members(each.pin, "reason until_turn"),
    }
