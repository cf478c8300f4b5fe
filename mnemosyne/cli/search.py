"""``mnemosyne search``: find what a session remembers, or messages of a conversation, by words and by meaning."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from mnemosyne.cli.figures import printable
from mnemosyne.cli.objects import source_text, turns_text
from mnemosyne.cli.printing import plural, print_json
from mnemosyne.cli.read_models import ReadModels, with_read_models
from mnemosyne.cli.reading import log_of, log_options
from mnemosyne.cli.search_file import HINT, search_file
from mnemosyne.cli.settings import configuration
from mnemosyne.domain.objects.kinds import Kind
from mnemosyne.errors import ContentForgotten, NotFound

if TYPE_CHECKING:
    from uuid import UUID

    from mnemosyne.app.storage import Storage
    from mnemosyne.config import Config
    from mnemosyne.domain.objects.aggregate import MemoryObject
    from mnemosyne.domain.recall.memory_results import Quote
    from mnemosyne.domain.recall.object_search import Filter, PassageHit

QUOTED_TOKENS = 400
QUOTED_LINES = 6
"""How much of an object is quoted, and how many lines of that are shown to people."""

SHORT_ID = 8
"""Characters of a session's id that are shown; they are enough to name it."""


class Turns(click.ParamType[tuple[int, int]]):
    """``3`` or ``3-5``."""

    name = "turns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        if match is None:
            self.fail(f"{value!r} is no turn and no range of turns such as 3-5.", param, ctx)
        first = int(match[1])
        last = int(match[2] or first)
        if last < first:
            self.fail(f"{value!r} ends before it begins.", param, ctx)
        return first, last


@attrs.frozen(kw_only=True)
class Answer:
    """What objects say to a question. ``missing``, ``unembedded`` and ``skipped`` as in ``SearchResult``."""

    embedder: str | None
    found: "Sequence[Hit]"
    missing: int = 0
    unembedded: int = 0
    skipped: int = 0


@attrs.frozen
class Hit:
    """An object of a session, and the part of it that says most."""

    stream: "UUID"
    hit: "PassageHit"
    object: "MemoryObject"
    quote: "Quote"


@click.command(short_help="Find what a session remembers, or messages of a conversation.")
@click.argument("session", required=False, metavar="[SESSION")
@click.argument("question", required=False, metavar="QUESTION]")
@click.option("--all-sessions", is_flag=True, help="Search every session; give the QUESTION alone.")
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Search the sessions that worked in this folder; give the QUESTION alone.",
)
@click.option("--branch", metavar="BRANCH", help="Only what this branch remembers.")
@click.option(
    "--kind", type=click.Choice([each.value for each in Kind]), metavar="KIND", help="Only objects of this kind."
)
@click.option("--tag", metavar="TAG", help="Only objects with this tag.")
@click.option("--turns", type=Turns(), metavar="A-B", help="Only objects of these turns.")
@click.option("--file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Search this conversation.")
@click.option("--queries", type=click.Path(path_type=Path), metavar="FILE", help="What to look for in it.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1), help="Results for each query, at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead: of a file, one line for each query.")
@log_options()
def search(
    session: str | None,
    question: str | None,
    all_sessions: bool,
    project: Path | None,
    branch: str | None,
    kind: str | None,
    tag: str | None,
    turns: tuple[int, int] | None,
    file: Path | None,
    queries: Path | None,
    limit: int,
    as_json: bool,
    **options: object,
) -> None:
    """Find what a session remembers about a question, by words and by meaning: the objects that say most, best first,
    each with the passage that does, word for word, and the bytes at which it stands in the object's text.

    \b
      mnemosyne search SESSION "why is the pool limited to 20?"
      mnemosyne search SESSION ERR_HEADER_2041 --kind tool_result --turns 10-20
      mnemosyne object ID --full          one of them, whole

    Only this session's objects are searched, unless you say otherwise. If nothing has to do with the question, that is
    what it says. A project is the folder that the agent named as its working directory.

    \b
      mnemosyne search --project . "how are migrations numbered?"
      mnemosyne search --all-sessions ERR_HEADER_2041 --kind file_context

    With --file and --queries, the messages of a conversation are searched instead. Both files are JSON Lines. A message
    is {"id", "role", "text", "time"}, in the order of the conversation; role (or the speaker's name) and time may be
    missing. A query is {"id", "text"}. With --json, each query gives one line, {"id", "results": [{"id", "score"}]}, in
    the order of the queries, the best result first; scores go from 0 to 1 and can be compared within one query. If a
    line cannot be read, nothing is printed and the exit code is 2.

    \b
      mnemosyne search --file conversation.jsonl --queries questions.jsonl --limit 5 --json

    Meaning needs the model that `mnemosyne model install` puts in place; without it, letters and words must do. A note
    on stderr says which it was.
    """
    several = all_sessions or project is not None
    if file is not None and queries is not None and session is None and not several:
        search_file(file, queries, limit, as_json, configuration(options).data_dir)
        return
    if several:
        given = session is not None and question is None and branch is None and not (all_sessions and project)
        session, question = None, session
    else:
        given = session is not None and question is not None
    if not given or question is None or file is not None or queries is not None:
        raise click.UsageError(
            "Give SESSION and QUESTION; or QUESTION and either --all-sessions or --project, without --branch; or --file"
            " and --queries."
        )
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")
    from mnemosyne.domain.recall.object_search import Filter

    chosen = Filter(branch=branch, kind=Kind(kind) if kind else None, tag=tag, turns=turns)
    config = log_of(options)
    if session is not None:
        answer = with_read_models(
            config, partial(_answer, config=config, session=session, question=question, chosen=chosen, limit=limit)
        )
    else:
        folder = str(project.resolve()) if project is not None else None
        answer = with_read_models(
            config, partial(_across, config=config, folder=folder, question=question, chosen=chosen, limit=limit)
        )
    _print_answer(answer, question, as_json, several=several)


# In what sessions remember


async def _answer(
    models: ReadModels, config: "Config", session: str, question: str, chosen: "Filter", limit: int
) -> Answer:
    from mnemosyne.app.storage import stored_in
    from mnemosyne.projections.object_index import OBJECT_INDEX
    from mnemosyne.services import memories, sessions

    storage = stored_in(models.database)
    stream = await sessions.find(storage, session)
    await models.refresh((OBJECT_INDEX,))
    index = await models.filled_index(config)
    state = memories.folded(await storage.events.read(stream))
    if chosen.branch is not None and chosen.branch not in state.branches:
        raise NotFound(f"Session {stream} has no branch {chosen.branch!r}; `mnemosyne branches {stream}` lists them.")
    objects = chosen.chosen(state.memory)
    if state.memory.objects and all(each.forgotten for each in state.memory.objects.values()):
        raise ContentForgotten(f"Session {stream} was forgotten: what its objects held is erased.")
    if not objects:
        click.echo(f"Session {stream} remembers no such objects; `mnemosyne objects {stream}` lists all.", err=True)
    result = await index.search(stream, question, objects.keys(), limit)
    return Answer(
        embedder=result.embedder,
        found=[await _hit(storage, stream, hit, objects[hit.object], question) for hit in result.hits],
        missing=result.missing,
        unembedded=result.unembedded,
        skipped=result.skipped,
    )


async def _across(
    models: ReadModels, config: "Config", folder: str | None, question: str, chosen: "Filter", limit: int
) -> Answer:
    from mnemosyne.app.storage import stored_in
    from mnemosyne.projections.object_index import OBJECT_INDEX
    from mnemosyne.services import memories, projects

    storage = stored_in(models.database)
    streams = None
    if folder is not None:
        streams = await projects.sessions_in(storage, folder)
        if not streams:
            raise NotFound(f"No session worked in {folder}; --all-sessions searches every session.")
    await models.refresh((OBJECT_INDEX,))
    index = await models.filled_index(config)
    result = await index.search_across(question, chosen, streams, limit)
    of = {stream for stream, _ in result.hits}
    remembered = {stream: memories.folded(await storage.events.read(stream)).memory.objects for stream in of}
    found, skipped = [], 0
    for stream, hit in result.hits:
        each = remembered[stream][hit.object]
        try:
            found += [] if each.forgotten else [await _hit(storage, stream, hit, each, question)]
        except ContentForgotten:  # since the index was asked
            skipped += 1
    return Answer(embedder=result.embedder, found=found, skipped=skipped)


async def _hit(storage: "Storage", stream: "UUID", hit: "PassageHit", each: "MemoryObject", question: str) -> Hit:
    """The lines of a passage that say most, as they stand in the object's text."""
    from mnemosyne.domain.cost.tokens import Estimator, features_of_text
    from mnemosyne.domain.recall.object_search import text_in_index
    from mnemosyne.domain.recall.quoting import Quotable, Where, quote
    from mnemosyne.services import memories

    text = text_in_index(each, await memories.content_of(storage, stream, each))
    estimator = Estimator.of(None)
    quotable = Quotable({each.id: text})
    start, end = hit.passage.start, hit.passage.end
    places = [Where(each.id, start, end)]
    found = quotable.quotes_at(question, places, QUOTED_TOKENS, lambda said: estimator.tokens(features_of_text(said)))
    return Hit(stream, hit, each, found[0][0] if found else quote(each.id, text, start, end))


def _print_answer(answer: Answer, question: str, as_json: bool, *, several: bool) -> None:
    hint = HINT if answer.embedder is None or answer.embedder.startswith("hashed") else ""
    click.echo(f"Searched with words and {answer.embedder or 'nothing else'}{hint}.", err=True)
    if answer.missing:
        click.echo(f"The index is behind: {plural(answer.missing, 'object')} could not be searched.", err=True)
    if answer.unembedded:
        click.echo(f"The index is behind: {plural(answer.unembedded, 'object')} by words only.", err=True)
    if answer.skipped:
        click.echo(f"{plural(answer.skipped, 'object')} cannot be read and could not be searched.", err=True)
    if as_json:
        print_json(
            {
                "question": question,
                "relevant": bool(answer.found),
                "embedder": answer.embedder,
                "missing": answer.missing,
                "skipped": answer.skipped,
                "results": [_hit_as_json(each) for each in answer.found],
            }
        )
        return
    if not answer.found:
        click.echo("Nothing that is remembered has to do with this.")
    for found in answer.found:
        each, quoted = found.object, found.quote
        about = f"{each.kind.value}  {source_text(each)}  turn {turns_text(each)}  bytes {quoted.start}-{quoted.end}"
        where = f"  session {str(found.stream)[:SHORT_ID]}" if several else ""
        click.echo(f"{click.style(each.id, bold=True)}  {found.hit.score:.3f}  {about}{where}")
        lines = [line for line in quoted.text.splitlines() if line.strip()]
        for line in lines[:QUOTED_LINES]:
            click.echo(f"    {printable(line.expandtabs(4))}")
        if len(lines) > QUOTED_LINES:
            click.echo(f"    … {plural(len(lines) - QUOTED_LINES, 'line')} more")


def _hit_as_json(found: Hit) -> dict[str, Any]:
    each, quoted = found.object, found.quote
    return {
        "session": str(found.stream),
        "id": each.id,
        "score": round(found.hit.score, 4),
        "kind": each.kind.value,
        "role": each.role.value,
        "source_tool": each.source_tool,
        "source_key": each.source_key,
        "tags": list(each.tags),
        "first_turn": each.first_turn,
        "last_turn": each.last_turn,
        "quote": {"start": quoted.start, "end": quoted.end, "text": quoted.text},
    }
