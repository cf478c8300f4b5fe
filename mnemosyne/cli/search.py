"""``mnemosyne search`` and ``ask``: find objects of sessions, or messages of a conversation file; answer a question."""

import os
import re
import sys
from collections.abc import Hashable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from mnemosyne.adapters.embedding import model_files
from mnemosyne.app.object_index import fill_index, model_of, read_standing, why_words_only
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.log_access import log_of, prints, session_argument, with_read_models
from mnemosyne.cli.printing import print_json, progress_bar, say
from mnemosyne.cli.settings import configuration, log_options
from mnemosyne.cli.windows import source_text, turns_text
from mnemosyne.config import Config
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.recall.memory_results import NOT_IN_MEMORY, UNCERTAIN
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.recall.retrieval import Hit
from mnemosyne.domain.session.decision_inputs import finds_nothing
from mnemosyne.domain.session.input_events import HelperAnswer
from mnemosyne.domain.tools.memory_tools import ANSWER_TOKENS
from mnemosyne.errors import BadConfiguration
from mnemosyne.figures import dollars_text, plural, printable
from mnemosyne.services import search as searching
from mnemosyne.services import sessions
from mnemosyne.services.asking import MemoryAnswer, answer_as_json, origin_as_json
from mnemosyne.services.search import Findings
from mnemosyne.services.unstructuring import members
from mnemosyne.terminal import json_text

MOST_THREADS = 4

SHOWN = 100
"""Characters of a message in the text output."""

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
    "--limit",
    default=10,
    metavar="N",
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of results for each query.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead; with --file, one line for each query.")
@log_options()
def search(
    session: str | None,
    question: str | None,
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

    A QUESTION alone searches all sessions. The first search downloads the embedding model (91 MB) if the extra
    `embedding` is installed. A note on stderr shows whether words or meaning or both were compared.

    With --file and --queries, it searches the messages of a conversation. Both are JSON Lines: a message is {"id",
    "role", "text", "time"} (role and time are optional), a query {"id", "text"}. With --json, each query gets a line
    {"id", "results": [{"id", "score"}]}, best first; scores range from 0 to 1.
    """
    if file is not None and queries is not None and session is None and project is None:
        search_file(file, queries, limit, as_json, configuration(options))
        return
    several = question is None
    if several:
        session, question = None, session
    if question is None or file or queries or (branch if several else project):
        raise click.UsageError(
            "Give QUESTION, or SESSION and QUESTION (in quotation marks if it has several words); --branch needs"
            " SESSION, --project takes QUESTION alone. Or give --file and --queries."
        )
    if question is None:
        raise click.UsageError(f"{NEEDS_BOTH} You gave {session!r} alone.")
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")

    chosen = Filter(branch=branch, kind=ObjectKind(kind) if kind else None, tag=tag, turns=turns)
    config = log_of(options)
    add_model(config)
    print_notes(
        findings := with_read_models(config, partial(_search, session, project, question, chosen, limit)), config
    )
    if as_json:
        print_json(_findings_as_json(findings, question))
    else:
        _print_findings(findings, several=several)


async def _search(
    session: str | None, project: Path | None, question: str, chosen: Filter, limit: int, models: OpenReadModels
) -> Findings:
    archive = models.archive
    stream = None if session is None else await sessions.find(archive, session)
    index = await fill_index(models)
    await print_progress(models)
    if stream is None:
        folder = None if project is None else str(await trio.Path(project).resolve())
        return await searching.search_sessions(archive, index, question, chosen, limit, folder=folder)
    findings = await searching.search(archive, index, stream, question, chosen, limit)
    if findings.searched == 0:
        say(f"Session {stream} has no matching objects; `mnemosyne objects {stream}` lists all.", err=True)
    return findings


def add_model(config: Config) -> None:
    """Download the embedding model if it is due. The note on the search gives the reason if that fails."""
    if config.semantic_search and model_files.is_due(config.data_dir):
        say("Downloading the embedding model (91 MB), once.", err=True)
        with suppress(BadConfiguration), progress_bar("fetching") as progress:
            model_files.fetch(config.data_dir, progress)


async def print_progress(models: OpenReadModels) -> None:
    """Print how many objects have vectors, unless all have."""
    config = models.config
    if config.semantic_search and model_files.find_time(config.data_dir) is not None:
        standing = await read_standing(models.database)
        if standing.unembedded:
            say(f"By meaning, the index is behind: {standing.sentence}.", err=True)


def print_notes(findings: Findings | MemoryAnswer, config: Config) -> None:
    """Print the search method and the objects that could not be searched."""
    if findings.embedder is not None:
        say(f"Searched with words and {findings.embedder}.", err=True)
    else:
        say(f"Searched with words only. {why_words_only(config) or 'There are no vectors yet.'}", err=True)
    if findings.missing:
        say(f"The index is behind: {plural(findings.missing, 'object')} could not be searched.", err=True)
    if findings.outside:
        say(f"{plural(findings.outside, 'object')} not in the index: small, and nothing new in them.", err=True)
    if findings.skipped:
        say(f"{plural(findings.skipped, 'object')} cannot be read and were not searched.", err=True)


def _print_findings(findings: Findings, *, several: bool) -> None:
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


def _findings_as_json(findings: Findings, question: str) -> dict[str, Any]:
    return {
        "question": question,
        "relevant": bool(findings.found),
        **members(findings, "embedder missing skipped", not_indexed="outside"),
        "results": [
            {
                **members(each, session="stream", tags="object.tags"),
                **origin_as_json(each.object),
                "score": round(each.hit.score, 4),
                "quote": members(each.quote, "start end text"),
            }
            for each in findings.found
        ],
    }


def search_file(file: Path, queries: Path, limit: int, as_json: bool, config: Config) -> None:
    """Print the best messages of a conversation for each query. Raises BadOption."""
    from mnemosyne.adapters.embedding.conversation_index import index_conversation
    from mnemosyne.services.conversation_files import read_lines, read_queries

    lines, asked = read_lines(file), read_queries(queries)
    add_model(config)

    async def search() -> list[list[Hit[Hashable]]]:
        model = await model_of(config, threads=min(os.cpu_count() or 1, MOST_THREADS)).get()
        say(f"Searching with words {f'and {model.name}' if model else f'only. {why_words_only(config)}'}", err=True)
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


# Answers


SHORTEST = 50
"""The smallest useful answer, in tokens."""

NEEDS_BOTH = 'Name a session and a question: mnemosyne ask SESSION "QUESTION". `mnemosyne sessions` lists the sessions.'


def _print_answer(answer: MemoryAnswer) -> None:
    if not answer.cited:
        say(UNCERTAIN if answer.nearest else NOT_IN_MEMORY)
    for cited in answer.cited or answer.nearest:
        if cited.sentence is not None:
            say(printable(cited.sentence), bold=True)
        for line in cited.quote.text.splitlines():
            say(printable(line.expandtabs(4)))
        source = cited.object
        stale = ", out of date" if source.stale else ""
        say(f"  — {source.id}, {source.kind.value}: {source_text(source)}, turn {turns_text(source)}{stale}")


def render_helper(helped: HelperAnswer) -> str:
    """A sentence about the answer of a helper model."""
    cost = f"; {dollars_text(helped.nanodollars)}"
    dropped = f", {helped.dropped} more dropped" if helped.dropped else ""
    if finds_nothing(helped):
        return f"The helper {helped.helper} was asked: {helped.why}{dropped}{cost}."
    if helped.why is not None:
        return f"The helper {helped.helper} was asked, but the answer has quotes only: {helped.why}{dropped}{cost}."
    sentences = plural(len(helped.sentences), "sentence")
    return f"The helper {helped.helper} answered in {sentences}, each verified against its object{dropped}{cost}."


def _answer_as_json(answer: MemoryAnswer) -> dict[str, Any]:
    return answer_as_json(click.get_current_context().params["question"], answer)


@click.command()
@session_argument
@click.argument("question", required=False, metavar="QUESTION")
@click.option("--branch", metavar="BRANCH", help="Search only this branch.")
@click.option("--turns", type=Turns(), metavar="A-B", help="Only objects of these turns.")
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(SHORTEST),
    help="Maximum length of the answer, as for the model's own questions."
    f"  [default: {ANSWER_TOKENS}; twice that for passages that may not answer]",
)
@click.option("--quotes", is_flag=True, help="Only quotes: do not use a helper model, even if one is configured.")
@log_options()
@prints(_answer_as_json, _print_answer)
def ask(
    session: str,
    question: str | None,
    branch: str | None,
    turns: tuple[int, int] | None,
    tokens: int | None,
    quotes: bool,
    **options: Any,
) -> MemoryAnswer:
    """Answer a question with quotes from the content of a session. The model gets the same answer when it asks for
    evicted content.

    \b
      mnemosyne ask 319a "why is the pool limited to 20?"
      mnemosyne ask 319a "which tests failed?" --turns 10-20

    Each line is a quote and names its object. A configured helper model answers in sentences, each shown with the quote
    that supports it; a sentence without support is dropped.
    """
    from mnemosyne.app import asking

    if question is None:
        raise click.UsageError(f"{NEEDS_BOTH} You gave {session!r} alone.")
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")
    chosen, report = Filter(branch=branch, turns=turns), partial(say, err=True)
    config = log_of(options)
    add_model(config)

    async def work(models: OpenReadModels) -> MemoryAnswer:
        answer = await asking.ask(models, session, question, chosen, tokens, helper=not quotes, say=report)
        await print_progress(models)
        return answer

    print_notes(answer := with_read_models(config, work), config)
    if answer.helped is not None:
        say(render_helper(answer.helped), err=True)
    return answer
