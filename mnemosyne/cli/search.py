"""``mnemosyne search``: find what a session remembers, or messages of a conversation, by words and by meaning."""

import json
import re
import sys
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from mnemosyne.cli.figures import printable
from mnemosyne.cli.objects import KINDS, source_text, turns_text
from mnemosyne.cli.printing import plural, print_json, progress_bar
from mnemosyne.cli.read_models import ReadModels, with_read_models
from mnemosyne.cli.reading import log_of, log_options
from mnemosyne.cli.settings import configuration
from mnemosyne.errors import NotFound

if TYPE_CHECKING:
    from uuid import UUID

    from mnemosyne.adapters.conversation_index import Line
    from mnemosyne.config import Config
    from mnemosyne.domain.memory_object import MemoryObject
    from mnemosyne.domain.memory_results import Quote
    from mnemosyne.domain.object_search import Filter, PassageHit, SearchResult
    from mnemosyne.domain.retrieval import Hit
    from mnemosyne.storage import Storage

Parsed = TypeVar("Parsed")
Query = tuple[Hashable, str]

SHOWN = 100
"""Characters of a message that are shown to people."""

QUOTED_TOKENS = 400
QUOTED_LINES = 6
"""How much of an object is quoted, and how many lines of that are shown to people."""

HINT = "; `mnemosyne model install` adds search by meaning"


class BadInput(click.ClickException):
    """A file that cannot be read as what it should be."""

    exit_code = 2


class Turns(click.ParamType[tuple[int, int]]):
    """``3`` or ``3-5``."""

    name = "turns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        if match is None:
            self.fail(f"{value!r} is no turn and no range of turns such as 3-5.", param, ctx)
        first = int(match[1])
        return first, int(match[2] or first)


@attrs.frozen(kw_only=True)
class Answer:
    """What a session's objects say to a question."""

    stream: "UUID"
    result: "SearchResult"
    found: "Sequence[tuple[PassageHit, MemoryObject, Quote]]"


@click.command(short_help="Find what a session remembers, or messages of a conversation.")
@click.argument("session", required=False, metavar="[SESSION")
@click.argument("question", required=False, metavar="QUESTION]")
@click.option("--branch", metavar="BRANCH", help="Only what this branch remembers.")
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help="Only objects of this kind.")
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

    Only this session's objects are searched. If nothing has to do with the question, that is what it says.

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
    if file is not None and queries is not None and session is None:
        _search_file(file, queries, limit, as_json, configuration(options).data_dir)
    elif session is not None and question is not None and file is None and queries is None:
        from mnemosyne.domain.memory_object import Kind
        from mnemosyne.domain.object_search import Filter

        chosen = Filter(branch=branch, kind=Kind(kind) if kind else None, tag=tag, turns=turns)
        config = log_of(options)
        work = partial(_answer, config=config, session=session, question=question, chosen=chosen, limit=limit)
        _print_answer(with_read_models(config, work), question, as_json)
    else:
        raise click.UsageError("Give SESSION and QUESTION, or --file and --queries.")


# In a session


async def _answer(
    models: ReadModels, config: "Config", session: str, question: str, chosen: "Filter", limit: int
) -> Answer:
    from mnemosyne.archive import memories, sessions
    from mnemosyne.projections.object_index import OBJECT_INDEX
    from mnemosyne.storage import stored_in

    storage = stored_in(models.database)
    stream = await sessions.find(storage, session)
    await models.refresh((OBJECT_INDEX,))
    index = await models.filled_index(config)
    state = memories.folded(await storage.events.read(stream))
    if chosen.branch is not None and chosen.branch not in state.branches:
        raise NotFound(f"Session {stream} has no branch {chosen.branch!r}; `mnemosyne branches {stream}` lists them.")
    objects = chosen.chosen(state.memory)
    if not objects:
        raise NotFound(f"Session {stream} remembers no such objects; `mnemosyne objects {stream}` lists all.")
    result = await index.search(stream, question, objects.keys(), limit)
    found = [(hit, objects[hit.object], await _quoted(storage, stream, objects, hit, question)) for hit in result.hits]
    return Answer(stream=stream, result=result, found=found)


async def _quoted(
    storage: "Storage", stream: "UUID", objects: "dict[str, MemoryObject]", hit: "PassageHit", question: str
) -> "Quote":
    """The lines of a passage that say most, as they stand in the object's text."""
    from mnemosyne.archive import memories
    from mnemosyne.domain.object_search import text_in_index
    from mnemosyne.domain.quoting import Quotable, Where, quote
    from mnemosyne.domain.tokens import Estimator, features_of_text

    each = objects[hit.object]
    text = text_in_index(each, await memories.content_of(storage, stream, each))
    estimator = Estimator.of(None)
    quotable = Quotable()
    quotable.add(each.id, text)
    start, end = hit.passage.start, hit.passage.end
    places = [Where(each.id, start, end)]
    found = quotable.quotes_at(question, places, QUOTED_TOKENS, lambda said: estimator.tokens(features_of_text(said)))
    return found[0][0] if found else quote(each.id, text, start, end)


def _print_answer(answer: Answer, question: str, as_json: bool) -> None:
    result = answer.result
    hint = HINT if result.embedder is None or result.embedder.startswith("hashed") else ""
    click.echo(f"Searched with words and {result.embedder or 'nothing else'}{hint}.", err=True)
    if result.missing:
        click.echo(f"The index is behind: {plural(result.missing, 'object')} could not be searched.", err=True)
    if result.unembedded:
        click.echo(f"The index is behind: {plural(result.unembedded, 'object')} by words only.", err=True)
    if as_json:
        print_json(
            {
                "session": str(answer.stream),
                "question": question,
                "relevant": result.relevant,
                "embedder": result.embedder,
                "missing": result.missing,
                "results": [_hit_as_json(*each) for each in answer.found],
            }
        )
        return
    if not answer.found:
        click.echo("Nothing that is remembered has to do with this.")
    for hit, each, quoted in answer.found:
        about = f"{each.kind.value}  {source_text(each)}  turn {turns_text(each)}  bytes {quoted.start}-{quoted.end}"
        click.echo(f"{click.style(each.id, bold=True)}  {hit.score:.3f}  {about}")
        lines = [line for line in quoted.text.splitlines() if line.strip()]
        for line in lines[:QUOTED_LINES]:
            click.echo(f"    {printable(line.expandtabs(4))}")
        if len(lines) > QUOTED_LINES:
            click.echo(f"    … {plural(len(lines) - QUOTED_LINES, 'line')} more")


def _hit_as_json(hit: "PassageHit", each: "MemoryObject", quoted: "Quote") -> dict[str, Any]:
    return {
        "id": each.id,
        "score": round(hit.score, 4),
        "kind": each.kind.value,
        "role": each.role.value,
        "source_tool": each.source_tool,
        "source_key": each.source_key,
        "tags": list(each.tags),
        "first_turn": each.first_turn,
        "last_turn": each.last_turn,
        "quote": {"start": quoted.start, "end": quoted.end, "text": quoted.text},
    }


# In a file


def _search_file(file: Path, queries: Path, limit: int, as_json: bool, data_dir: Path) -> None:
    lines = _read(file, _line)
    asked = _read(queries, _query)
    found = _search(lines, asked, limit, data_dir)
    texts = {line.id: f"{line.role}: {line.text}" for line in lines}
    for (key, query), hits in zip(asked, found, strict=True):
        if as_json:
            results = [{"id": hit.key, "score": round(hit.score, 4)} for hit in hits]
            sys.stdout.write(json.dumps({"id": key, "results": results}, ensure_ascii=False) + "\n")
        else:
            click.secho(query, bold=True)
            for hit in hits:
                shown = " ".join(texts[hit.key].split())[:SHOWN]
                click.echo(f"  {hit.score:.2f}  {hit.key}  {shown}")


def _search(lines: "Sequence[Line]", asked: Sequence[Query], limit: int, data_dir: Path) -> "list[list[Hit[Hashable]]]":
    import os

    import trio

    from mnemosyne.adapters.conversation_index import index_conversation
    from mnemosyne.adapters.embedder import HashedLexical, open_embedder

    embedder = open_embedder(data_dir, threads=min(os.cpu_count() or 1, 4))
    hint = HINT if isinstance(embedder, HashedLexical) else ""
    click.echo(f"Searching with {embedder.name}{hint}.", err=True)

    async def run() -> "list[list[Hit[Hashable]]]":
        with progress_bar("reading") as progress:
            index = await index_conversation(lines, embedder, progress)
        with progress_bar("searching") as progress:
            return await index.search([query for _, query in asked], limit, progress)

    return trio.run(run)


def _read(path: Path, parse: Callable[[dict[str, Any]], Parsed]) -> list[Parsed]:
    """The lines of a file, all of them or none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from None
    found = []
    # Bytes, since text would be cut at every U+2028 as well.
    for number, raw in enumerate(data.splitlines(), 1):
        if not raw.strip():
            continue
        try:
            value = json.loads(raw)
            if not isinstance(value, dict):
                raise ValueError("it is no JSON object")
            found.append(parse(value))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}, line {number}: {error}. Mend the line or take it out.") from None
    return found


def _line(value: dict[str, Any]) -> "Line":
    from mnemosyne.adapters.conversation_index import Line

    return Line(_id(value), _text(value, "role", ""), _text(value, "text"), _text(value, "time", ""))


def _query(value: dict[str, Any]) -> Query:
    return _id(value), _text(value, "text")


def _id(value: dict[str, Any]) -> Hashable:
    if not isinstance(key := value.get("id"), str | int):
        raise ValueError("a text or a number as its id is needed")
    return key


def _text(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name, default)
    found = default if found is None else found
    if not isinstance(found, str):
        raise ValueError(f"its {name} is no text" if name in value else f"it has no {name}")
    return found
