"""``mnemosyne ask``: a question answered from what a session remembers, as the model's own would be."""

from functools import partial
from typing import Any

import click

from mnemosyne.app import asking
from mnemosyne.app.read_models import OpenReadModels
from mnemosyne.cli.printing import print_json, say
from mnemosyne.cli.reading import json_option, log_of, session_argument, with_read_models
from mnemosyne.cli.search import Turns, origin_as_json, print_notes
from mnemosyne.cli.settings import log_options
from mnemosyne.cli.windows import source_text, turns_text
from mnemosyne.domain.recall.memory_results import NOT_IN_MEMORY
from mnemosyne.domain.recall.object_search import Filter
from mnemosyne.domain.session.decision_inputs import HelperAnswer
from mnemosyne.domain.session.input_events import HelperAsked
from mnemosyne.figures import dollars, dollars_text, plural, printable
from mnemosyne.services.asking import MemoryAnswer
from mnemosyne.services.unstructuring import members

SHORTEST = 50
"""Tokens of an answer that still says something."""


@click.command()
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
@click.option("--quotes", is_flag=True, help="Only quotes: ask no helper model, even if the settings name one.")
@log_options()
@json_option
def ask(
    session: str,
    question: str,
    branch: str | None,
    turns: tuple[int, int] | None,
    tokens: int,
    quotes: bool,
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

    Where the settings name a helper model, it is given what was found and answers in sentences. Each is told with the
    words that it rests on, which were looked up in the object; one without such words is dropped. What that cost is
    recorded in the session.
    """
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")

    chosen = Filter(branch=branch, turns=turns)
    asked = partial(_ask, session=session, question=question, chosen=chosen, tokens=tokens, helper=not quotes)
    found = with_read_models(log_of(options), asked)
    print_notes(found)
    if found.helped is not None:
        say(render_helper(found.helped), err=True)
    if as_json:
        print_json(_as_json(found, question))
    else:
        _print(found)


async def _ask(
    models: OpenReadModels, *, session: str, question: str, chosen: Filter, tokens: int, helper: bool
) -> MemoryAnswer:
    return await asking.ask(models, session, question, chosen, tokens, helper=helper, say=partial(say, err=True))


def _print(found: MemoryAnswer) -> None:
    if not found.cited:
        say(NOT_IN_MEMORY)
    for cited in found.cited:
        if cited.sentence is not None:
            say(printable(cited.sentence), bold=True)
        for line in cited.quote.text.splitlines():
            say(printable(line.expandtabs(4)))
        each = cited.object
        old = ", out of date" if each.stale else ""
        say(f"  — {each.id}, {each.kind.value}: {source_text(each)}, turn {turns_text(each)}{old}")


def render_helper(helped: HelperAnswer | HelperAsked) -> str:
    """What a helper model made of a question, in a sentence."""
    cost = f"; {dollars_text(helped.nanodollars)}"
    dropped = f", {helped.dropped} more dropped" if helped.dropped else ""
    if helped.why is not None:
        return f"The helper {helped.helper} was asked, and the answer is in quotes alone: {helped.why}{dropped}{cost}."
    told = plural(len(helped.sentences), "sentence")
    return f"The helper {helped.helper} answered in {told}, each found in its object{dropped}{cost}."


def helper_as_json(helped: HelperAnswer | HelperAsked) -> dict[str, Any]:
    """What a helper model made of a question."""
    return {
        **members(helped, "helper dropped why"),
        "sentences": [members(each, "text object start end") for each in helped.sentences],
        "dollars": dollars(helped.nanodollars),
    }


def _as_json(found: MemoryAnswer, question: str) -> dict[str, Any]:
    return {
        "question": question,
        "answered": bool(found.cited),
        **members(found, "embedder missing skipped", not_indexed="outside"),
        "helper": None if found.helped is None else helper_as_json(found.helped),
        "quotes": [
            {**members(each, "sentence"), **origin_as_json(each), **members(each.quote, "start end text")}
            for each in found.cited
        ],
    }
