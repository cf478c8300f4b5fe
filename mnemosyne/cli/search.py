"""``mnemosyne search``: search sessions, or the messages of a conversation file, by words and by meaning."""

import os
import re
import sys
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from mnemosyne.app.object_index import fill_index
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import log_of, with_read_models
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import source_text, turns_text
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.recall.retrieval import Hit
from mnemosyne.figures import plural, printable
from mnemosyne.services import search as searching
from mnemosyne.services import sessions
from mnemosyne.services.asking import Cited, MemoryAnswer
from mnemosyne.services.search import Findings, SearchHit
from mnemosyne.services.unstructuring import members
from mnemosyne.terminal import json_text

MOST_THREADS = 4

SHOWN = 100
"""Characters of a message in the text output."""

HINT = "; `mnemosyne model install` adds semantic search"

QUOTED_LINES = 6
"""Lines of a quote in the text output."""

SHORT_ID = 8
"""Characters of a session id in the text output."""


class Turns(click.ParamType[tuple[int, int]]):
    """``3`` or ``3-5``."""

    name = "turns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        if match is None:
            self.fail(f"{value!r} is neither a turn nor a range of turns such as 3-5.", param, ctx)
        first = int(match[1])
        last = int(match[2] or first)
        if last < first:
            self.fail(f"{value!r} ends before it begins.", param, ctx)
        return first, last


@click.command()
@click.argument("session", required=False, metavar="[SESSION")
@click.argument("question", required=False, metavar="QUESTION]")
@click.option("--all-sessions", is_flag=True, help="Search all sessions; the default without SESSION.")
@click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Search the sessions that worked in this folder; give the QUESTION alone.",
)
@click.option("--branch", metavar="BRANCH", help="Search only this branch.")
@click.option(
    "--kind", type=click.Choice([each.value for each in ObjectKind]), metavar="KIND", help="Only objects of this kind."
)
@click.option("--tag", metavar="TAG", help="Only objects with this tag.")
@click.option("--turns", type=Turns(), metavar="A-B", help="Only objects of these turns.")
@click.option(
    "--file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Search the messages in this file."
)
@click.option("--queries", type=click.Path(path_type=Path), metavar="FILE", help="The queries for --file.")
@click.option(
    "--limit", default=10, show_default=True, type=click.IntRange(1), help="Maximum number of results for each query."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead; with --file, one line for each query.")
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
    """Search the content of sessions by words and by meaning. Results are the best objects, each with its best passage,
    quoted verbatim.

    \b
      mnemosyne search "why is the pool limited to 20?"
      mnemosyne search 319a ERR_HEADER_2041 --kind tool_result --turns 10-20
      mnemosyne search --project . "how are migrations numbered?"
      mnemosyne search --file messages.jsonl --queries queries.jsonl --json

    A QUESTION alone searches all sessions. Semantic search needs `mnemosyne model install`; a note on stderr shows
    which method was used.

    With --file and --queries, it searches the messages of a conversation. Both are JSON Lines: a message is {"id",
    "role", "text", "time"} (role and time are optional), a query {"id", "text"}. With --json, each query gets a line
    {"id", "results": [{"id", "score"}]}, best first; scores range from 0 to 1.
    """
    if session is not None and question is None and branch is None:
        all_sessions = all_sessions or project is None  # a question alone
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
            "Give QUESTION, or SESSION and QUESTION (in quotation marks if it has several words); --branch needs"
            " SESSION, --project and --all-sessions take QUESTION alone. Or give --file and --queries."
        )
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")

    chosen = Filter(branch=branch, kind=ObjectKind(kind) if kind else None, tag=tag, turns=turns)
    findings = with_read_models(log_of(options), partial(_search, session, project, question, chosen, limit))
    print_notes(findings)
    if as_json:
        print_json(_as_json(findings, question))
    else:
        _print(findings, several=several)


async def _search(
    session: str | None, project: Path | None, question: str, chosen: Filter, limit: int, models: OpenReadModels
) -> Findings:
    archive = models.archive
    stream = None if session is None else await sessions.find(archive, session)
    index = await fill_index(models)
    if stream is None:
        folder = None if project is None else str(await trio.Path(project).resolve())
        return await searching.search_sessions(archive, index, question, chosen, limit, folder=folder)
    findings = await searching.search(archive, index, stream, question, chosen, limit)
    if findings.searched == 0:
        say(f"Session {stream} has no matching objects; `mnemosyne objects {stream}` lists all.", err=True)
    return findings


def print_notes(findings: Findings | MemoryAnswer) -> None:
    """Print the search method and the objects that could not be searched."""
    embedder = findings.embedder
    hint = HINT if embedder is None or embedder.startswith("hashed") else ""
    say(f"Searched with words and {embedder or 'nothing else'}{hint}.", err=True)
    if findings.missing:
        say(f"The index is behind: {plural(findings.missing, 'object')} could not be searched.", err=True)
    if findings.unembedded:
        say(f"The index is behind: {plural(findings.unembedded, 'object')} searched by words only.", err=True)
    if findings.outside:
        say(f"{plural(findings.outside, 'object')} not in the index: routine and small talk.", err=True)
    if findings.skipped:
        say(f"{plural(findings.skipped, 'object')} cannot be read and were not searched.", err=True)


def _print(findings: Findings, *, several: bool) -> None:
    if not findings.found:
        say("No relevant objects.")
    for found in findings.found:
        each, quoted = found.object, found.quote
        about = f"{each.kind.value}  {source_text(each)}  turn {turns_text(each)}  bytes {quoted.start}-{quoted.end}"
        where = f"  session {str(found.stream)[:SHORT_ID]}" if several else ""
        old = "  out of date" if each.stale else ""
        say(each.id, bold=True, nl=False)
        say(f"  {found.hit.score:.3f}  {about}{where}{old}")
        lines = [line for line in quoted.text.splitlines() if line.strip()]
        for line in lines[:QUOTED_LINES]:
            say(f"    {printable(line.expandtabs(4))}")
        if len(lines) > QUOTED_LINES:
            say(f"    … {plural(len(lines) - QUOTED_LINES, 'line')} more")


def _as_json(findings: Findings, question: str) -> dict[str, Any]:
    return {
        "question": question,
        "relevant": bool(findings.found),
        **members(findings, "embedder missing skipped", not_indexed="outside"),
        "results": [
            {
                **members(each, session="stream", tags="object.tags"),
                **origin_as_json(each),
                "score": round(each.hit.score, 4),
                "quote": members(each.quote, "start end text"),
            }
            for each in findings.found
        ],
    }


def origin_as_json(found: SearchHit | Cited) -> dict[str, Any]:
    """The type and the source of an object as JSON."""
    names = "id kind role source_tool source_key first_turn last_turn superseded_by"
    return members(found.object, names, out_of_date="stale")


def search_file(file: Path, queries: Path, limit: int, as_json: bool, data_dir: Path) -> None:
    """Print the best messages of a conversation for each query. Raises BadOption."""
    from mnemosyne.adapters.embedding.conversation_index import index_conversation
    from mnemosyne.adapters.embedding.embedder import HashedLexical, open_embedder
    from mnemosyne.services.conversation_files import read_lines, read_queries

    lines, asked = read_lines(file), read_queries(queries)
    opened = open_embedder(data_dir, threads=min(os.cpu_count() or 1, MOST_THREADS))
    model = None if isinstance(opened, HashedLexical) else opened  # hashed words add nothing to word search
    say(f"Searching with words{f' and {model.name}' if model else HINT}.", err=True)

    async def search() -> list[list[Hit[Hashable]]]:
        with progress_bar("reading") as progress:
            index = await index_conversation(lines, model, progress)
        with progress_bar("searching") as progress:
            return await index.search([query.text for query in asked], limit, progress)

    found = trio.run(search)
    texts = {line.id: f"{line.role}: {line.text}" if line.role else line.text for line in lines}
    for query, hits in zip(asked, found, strict=True):
        if as_json:
            results = [{"id": hit.key, "score": round(hit.score, 4)} for hit in hits]
            sys.stdout.write(json_text({"id": query.id, "results": results}) + "\n")
        else:
            say(query.text, bold=True)
            for hit in hits:
                shown = " ".join(texts[hit.key].split())[:SHOWN]
                say(f"  {hit.score:.2f}  {hit.key}  {shown}")
