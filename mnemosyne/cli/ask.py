"""``mnemosyne ask``: a question answered from what a session remembers, as the model's own would be."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mnemosyne.cli.figures import printable
from mnemosyne.cli.objects import source_text, turns_text
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.read_models import with_read_models
from mnemosyne.cli.reading import json_option, log_of, log_options, session_argument
from mnemosyne.cli.search import Turns, origin_as_json, print_notes, quote_as_json

if TYPE_CHECKING:
    from mnemosyne.app.read_models import OpenReadModels
    from mnemosyne.domain.recall.object_search import Filter
    from mnemosyne.services.asking import Cited, MemoryAnswer

SHORTEST = 50
"""Tokens of an answer that still says something."""


@click.command(short_help="Ask a question of what a session remembers.")
@session_argument
@click.argument("question")
@click.option("--branch", metavar="BRANCH", help="Only what this branch remembers.")
@click.option("--turns", type=Turns(), metavar="A-B", help="Only objects of these turns.")
@click.option(
    "--tokens",
    default=400,
    show_default=True,
    type=click.IntRange(SHORTEST),
    help="How long the answer may be; the model's own have 200 unless it asks for more.",
)
@log_options()
@json_option
def ask(
    session: str,
    question: str,
    branch: str | None,
    turns: tuple[int, int] | None,
    tokens: int,
    as_json: bool,
    **options: object,
) -> None:
    """Answer a question from what a session remembers, in the words that were said or read: the definition, the error
    with its cause, the decision. It is how the model is answered when it asks for what left its window.

    \b
      mnemosyne ask SESSION "why is the pool limited to 20?"
      mnemosyne ask SESSION "which tests failed?" --turns 10-20
      mnemosyne object ID --full          what an answer is from, whole

    Nothing is made up: each line is quoted, with the object that it stands in. Where nothing that is remembered answers
    the question, that is what it says. `mnemosyne search` lists everything that has to do with it.
    """
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")
    from mnemosyne.domain.recall.object_search import Filter

    asked = partial(_ask, session=session, question=question, chosen=Filter(branch=branch, turns=turns), tokens=tokens)
    found = with_read_models(log_of(options), asked)
    print_notes(found)
    if as_json:
        print_json(_as_json(found, question))
    else:
        _print(found)


async def _ask(
    models: "OpenReadModels", *, session: str, question: str, chosen: "Filter", tokens: int
) -> "MemoryAnswer":
    from mnemosyne.app.object_index import fill_index
    from mnemosyne.services import asking, sessions

    stream = await sessions.find(models.archive, session)
    return await asking.ask(models.archive, await fill_index(models), stream, question, chosen, tokens)


def _print(found: "MemoryAnswer") -> None:
    from mnemosyne.domain.recall.memory_results import NOT_IN_MEMORY

    if not found.cited:
        say(NOT_IN_MEMORY)
    for cited in found.cited:
        for line in cited.quote.text.splitlines():
            say(printable(line.expandtabs(4)))
        each = cited.object
        old = ", out of date" if each.stale else ""
        say(f"  — {each.id}, {each.kind.value}: {source_text(each)}, turn {turns_text(each)}{old}")


def _as_json(found: "MemoryAnswer", question: str) -> dict[str, Any]:
    return {
        "question": question,
        "answered": bool(found.cited),
        "embedder": found.embedder,
        "missing": found.missing,
        "skipped": found.skipped,
        "not_indexed": found.outside,
        "quotes": [_citation_as_json(each) for each in found.cited],
    }


def _citation_as_json(cited: "Cited") -> dict[str, Any]:
    return {"id": cited.object.id, **origin_as_json(cited.object), **quote_as_json(cited.quote)}
