"""``mnemosyne objects`` and ``object``: the objects of a session, and one of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import click

from mnemosyne.app.process import now
from mnemosyne.app.settings import settings_of
from mnemosyne.app.storage import Storage
from mnemosyne.cli.log_access import branch_option, log_of, prints, session_argument, turn_option, with_log
from mnemosyne.cli.printing import print_table, say
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import (
    SOURCE,
    flags,
    plan_as_json,
    plan_sentence,
    render_source,
    source_text,
    turns_text,
    window_as_json,
    window_line,
)
from mnemosyne.domain.history.memory_travel import MemorySnapshot, ObjectChange, history_of
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.protection import Resident, idle_turns
from mnemosyne.domain.segmentation.episodes import FIRST_TURN, topics_of
from mnemosyne.figures import count_text, percent_text, plural, printable
from mnemosyne.http.inspector.happenings import describe_object
from mnemosyne.services import memories, windows
from mnemosyne.services.memories import FoundObject
from mnemosyne.services.unstructuring import members
from mnemosyne.services.windows import Listing

session_option = click.option(
    "--session", metavar="SESSION", help="The session of the object.  [default: the one with it]"
)


# All objects


def _listing_as_json(listing: Listing) -> dict[str, Any]:
    return {
        "session": str(listing.stream),
        **window_as_json(listing.window, listing.counted),
        "planned": plan_as_json(listing.planned),
        "objects": [_standing_as_json(listing, standing) for standing in listing.standings],
    }


def _print_listing(listing: Listing) -> None:
    say(f"{listing.window.branch} {listing.window.turn}", bold=True, nl=False)
    say(f"  {window_line(listing.window)}")
    if not listing.standings:
        say("No matching objects.")
        return
    print_table(_HEADERS, [_row(listing, standing) for standing in listing.standings], right=_NUMBERS, whole="ID AT")
    _print_totals(listing.standings)
    if listing.planned is not None:
        say(plan_sentence(listing.planned))


_HEADERS = ("ID", "KIND", "SOURCE", "TURNS", "L0", "L1", "L2", "L3", "AT", "IDLE", "USES", "FAULTS", "FLAGS")
_NUMBERS = "L0 L1 L2 L3 IDLE USES FAULTS"


def _row(listing: Listing, standing: Resident) -> tuple[str, ...]:
    each = standing.object
    tokens = [count_text(each.tokens_at(level)) for level in Fidelity if level is not Fidelity.EVICTED]
    return (
        each.id,
        each.kind.value,
        source_text(each),
        turns_text(each),
        *(tokens if each.places else ["-"] * len(tokens)),
        standing.fidelity.label if each.places else "-",
        str(idle_turns(each, listing.window.turn)),
        str(each.accesses),
        str(each.faults + each.micro_faults),
        " ".join(flags(standing, listing.window.turn, listing.planned)) or "-",
    )


def _print_totals(shown: Sequence[Resident]) -> None:
    """Print the number of objects of each kind, and the tokens of those in the window."""
    kinds = Counter(each.object.kind.value for each in shown)
    tokens: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for each in shown:
        if each.object.places:
            tokens[each.object.kind.value] += each.tokens
            levels[each.fidelity.label] += 1
    say()
    say(
        f"{plural(len(shown), 'object')}, {count_text(tokens.total())} tokens: "
        + ", ".join(f"{count} {kind} ({count_text(tokens[kind])})" for kind, count in kinds.most_common())
    )
    say("in the window: " + (", ".join(f"{count} at {level}" for level, count in sorted(levels.items())) or "none"))


def _standing_as_json(listing: Listing, standing: Resident) -> dict[str, Any]:
    return {
        **object_as_json(standing.object),
        "fidelity": standing.fidelity.label if standing.object.places else None,
        "idle": idle_turns(standing.object, listing.window.turn),
        "flags": flags(standing, listing.window.turn, listing.planned),
    }


def object_as_json(each: MemoryObject) -> dict[str, Any]:
    """An object as JSON, without its content."""
    place = "id branch kind role source_tool source_key tags first_turn last_turn size stub key_entities links"
    use = "superseded superseded_by accesses faults micro_faults last_use released forgotten utility"
    return {
        **members(each, f"{place} {use}", admitted="admission.admitted", admission_score="admission.score"),
        "places": [[place.message, place.block] for place in each.places],
        "tokens": {level.label: each.tokens_at(level) for level in Fidelity},
        "pin": None if each.pin is None else members(each.pin, "reason until_turn"),
    }


def _print_object(shown: tuple[FoundObject, Mapping[str, str]]) -> None:
    found, texts = shown
    each = found.object
    say(f"{each.id}  {each.kind.value}, {each.role.value}", bold=True)
    say(printable(each.stub) or "(forgotten)")
    say(_source_line(each))
    for branch, pinned in found.session.memory.pins_of(each.id).items():
        if pinned is None:
            say(f"not pinned in {printable(branch)}")
            continue
        until = "until it is unpinned" if pinned.until_turn is None else f"through turn {pinned.until_turn}"
        say(f"pinned{f' in {printable(branch)}' if branch else ''} {until}: {printable(pinned.reason)}")
    if each.superseded is not None:
        by = f" by {each.superseded_by}" if each.superseded_by else ""
        say(f"stale: {each.superseded.value}{by}")
    if each.utility is not None:
        say(f"needed again, by a helper model's estimate: {each.utility:.0%}")
    if each.key_entities:
        say("names: " + ", ".join(map(printable, each.key_entities)))
    _print_renditions(each)
    _print_links(found)
    say()
    rows = [_change_row(change) for change in history_of(found.events, each.id)]
    print_table(("EVENT", "WHAT", "WHERE", "ZONE", "WHY"), rows, right="EVENT")
    for label, text in texts.items():
        say()
        say(label, bold=True)
        say("\n".join(printable(line) for line in text.expandtabs(4).splitlines()))


def _source_line(each: MemoryObject) -> str:
    where = f"from {printable(render_source(each, each.source_tool))}, " if each.source_tool else ""
    blocks = plural(len(each.places), "block") if each.places else "no blocks of its own"
    return f"{where}branch {each.branch}, turn {turns_text(each)}, {blocks}, {plural(each.size, 'character')}"


def _print_renditions(each: MemoryObject) -> None:
    if not each.places:
        return
    rows = [("L0", count_text(each.tokens), percent_text(1), "original", "nothing")]
    for fidelity, rendition in sorted(each.renditions.items()):
        lost = ", ".join(f"{count} {kind}" for kind, count in rendition.losses.lost.items() if count)
        share = percent_text(rendition.tokens / max(1, each.tokens))
        rows.append(
            (fidelity.label, count_text(rendition.tokens), share, printable(rendition.helper), lost or "no specifics")
        )
    extract = each.tokens_at(Fidelity.DETAILED)
    if extract is not None and Fidelity.DETAILED not in each.renditions:
        share = percent_text(extract / max(1, each.tokens))
        rows.insert(1, (Fidelity.DETAILED.label, f"~{count_text(extract)}", share, "an extract, when needed", "-"))
    share = percent_text(each.stub_tokens / max(1, each.tokens))
    rows.append((Fidelity.STUB.label, count_text(each.stub_tokens), share, "stub", "all but one line"))
    say()
    print_table(("AT", "TOKENS", "OF L0", "WRITTEN BY", "MEASURED LOSS"), rows, right="TOKENS")
    for fidelity, rendition in sorted(each.renditions.items()):
        for label, texts in _list_losses(rendition.losses):
            say(f"{fidelity.label} {label}: {'; '.join(map(printable, texts))}")


def _list_losses(losses: Losses) -> list[tuple[str, tuple[str, ...]]]:
    labelled = (
        ("lacks", losses.dropped),
        ("can answer", losses.can_answer),
        ("is not enough when", losses.fault_when),
        ("lost, for example", losses.sample),
        ("failed spot checks", losses.failed),
    )
    return [(label, texts) for label, texts in labelled if texts]


_CONVERSE = {
    "parent_of": "part of",
    "caused_by": "caused",
    "references": "referred to by",
    "supersedes": "superseded by",
    "depends_on": "needed by",
}
"""The inverse of each relation."""


def _print_links(found: FoundObject) -> None:
    memory, each = found.session.memory, found.object
    rows = [(link.relation.value.replace("_", " "), link.target) for link in each.links]
    for other in memory.objects.values():
        rows += [(_CONVERSE[link.relation.value], other.id) for link in other.links if link.target == each.id]
    if rows:
        say()
    for relation, target in rows:
        other_stub = memory.objects[target].stub if target in memory.objects else ""
        say(f"{relation} {target}: {printable(' '.join(other_stub.split()))[: 2 * SOURCE]}")


def _change_row(change: ObjectChange) -> tuple[str, ...]:
    what, why = describe_object(change.event, sized=True)
    where = "-" if change.branch is None else f"{change.branch} {change.turn}" if change.turn else change.branch
    return (str(change.version), what, where, change.zone or "-", printable(why) or "-")


def _object_as_json(shown: tuple[FoundObject, Mapping[str, str]]) -> dict[str, Any]:
    found, texts = shown
    each = found.object
    history = []
    for change in history_of(found.events, each.id):
        what, why = describe_object(change.event, sized=True)
        fields = {"event": type(change.event).__name__, "what": what, "why": why or None}
        history.append({**members(change, "version branch turn zone"), **fields})
    return {
        "session": str(found.stream),
        **object_as_json(each),
        "renditions": {
            fidelity.label: members(rendition, "tokens size helper losses")
            for fidelity, rendition in sorted(each.renditions.items())
        },
        "referred_to_by": [
            {"object": other.id, "relation": link.relation.value}
            for other in found.session.memory.objects.values()
            for link in other.links
            if link.target == each.id
        ],
        "history": history,
        **({"texts": dict(texts)} if texts else {}),
    }


# Topics

TOPIC_HEADERS = ("ID", "TURNS", "OBJECTS", "THEME", "ABOUT")

OfBranch = tuple[UUID, MemorySnapshot]
"""A session, and the state of one of its branches."""


def print_topics(found: OfBranch) -> None:
    """Print the episodes and themes of a branch at a turn; episodes of one theme name the first of them."""
    _, snapshot = found
    topics = topics_of(snapshot.memory, snapshot.branch)
    say(f"{snapshot.branch} {snapshot.turn}", bold=True)
    if not topics.episodes:
        say(f"Topics are shown from turn {FIRST_TURN} of a branch.")
        return
    recurring = {episode.theme for theme in topics.themes for episode in theme}
    rows = [
        (
            episode.object or "(ongoing)",
            f"{episode.first_turn}-{episode.last_turn}",
            str(len(episode.parts)),
            (episode.theme if episode.theme in recurring else None) or "-",
            printable(episode.about) or "(forgotten)",
        )
        for episode in topics.episodes
    ]
    print_table(TOPIC_HEADERS, rows, right="TURNS OBJECTS")
    say()
    say(f"{plural(len(topics.episodes), 'episode')}, {plural(len(topics.themes), 'theme')} with more than one")


def topics_as_json(found: OfBranch) -> dict[str, Any]:
    """The episodes and themes of a branch as JSON."""
    stream, snapshot = found
    topics = topics_of(snapshot.memory, snapshot.branch)
    return {
        "session": str(stream),
        **members(snapshot, "branch turn"),
        "episodes": [
            members(episode, "theme first_turn last_turn about", id="object", objects="parts")
            for episode in topics.episodes
        ],
        "themes": [[episode.object for episode in theme] for theme in topics.themes],
    }


# The commands


@click.command()
@session_argument
@branch_option
@turn_option("now")
@click.option("--kind", type=click.Choice([each.value for each in ObjectKind]), metavar="KIND", help="Only this kind.")
@click.option("--stale", is_flag=True, help="Only stale objects.")
@click.option("--topics", is_flag=True, help="Show the topics of the session and their turns instead of objects.")
@log_options()
@prints(
    lambda found: _listing_as_json(found) if isinstance(found, Listing) else topics_as_json(found),
    lambda found: _print_listing(found) if isinstance(found, Listing) else print_topics(found),
)
def objects(
    session: str, branch: str, turn: int | str | None, kind: str | None, stale: bool, topics: bool, **options: Any
) -> Listing | OfBranch:
    """List the objects of a branch: the source of each, its tokens at each fidelity, and its current fidelity (AT).

    \b
      mnemosyne objects 319a --turn 12 --kind file_context
      mnemosyne objects 319a --topics  episodes and themes

    L0 is full, L1 detailed, L2 compact, L3 one line, L4 evicted; `-` means that there is no such rendition. Tokens are
    estimates. IDLE counts the turns since the last use, USES its uses, FAULTS how often it was needed again after its
    eviction. `would→` shows what the planner would do in a conversation that is only observed.
    """
    if topics and (kind or stale):
        raise click.UsageError("--topics cannot be combined with --kind or --stale.")
    config = log_of(options)
    if topics:
        stream, _, snapshot = with_log(config, lambda storage: windows.read_snapshot(storage, session, branch, turn))
        windows.refuse_forgotten(stream, snapshot)
        return stream, snapshot

    def is_wanted(of: ObjectKind, is_stale: bool) -> bool:
        return (kind is None or of.value == kind) and (not stale or is_stale)

    planning = now(), settings_of(config)
    return with_log(
        config,
        lambda storage: windows.list_objects(storage, session, branch, turn, wanted=is_wanted, planning=planning),
    )


@click.command("object")
@click.argument("named", nargs=-1, required=True, metavar="[SESSION] ID")
@session_option
@click.option("--full", is_flag=True, help="Also show the text of the object and of its renditions.")
@log_options()
@prints(_object_as_json, _print_object)
def object_command(
    named: tuple[str, ...], session: str | None, full: bool, **options: Any
) -> tuple[FoundObject, Mapping[str, str]]:
    """Show one object: its renditions, what each of them lacks, its links, and its history with the cause of each
    change.

    \b
      mnemosyne object 5ft4gvt
      mnemosyne object 5ft4gvt --full  its whole text, rebuilt from the log

    You can omit the session if only one has an object of that id.
    """
    *before, object_id = named
    if len(before) + (session is not None) > 1:
        raise click.UsageError("Give one object, and at most one session: mnemosyne object [SESSION] ID.")
    within = session or next(iter(before), None)

    async def read(storage: Storage) -> tuple[FoundObject, Mapping[str, str]]:
        found = await memories.find(storage, object_id, within)
        texts, unread = await memories.read_texts(storage, found) if full else ({}, None)
        if unread is not None:
            say(unread, err=True)
        return found, texts

    return with_log(log_of(options), read)
