"""``mnemosyne ask``: answer a question from a session's objects, as the memory tools answer the model."""

from functools import partial
from typing import Any

import click

from mnemosyne.app import asking
from mnemosyne.cli.log_access import json_option, log_of, session_argument, with_read_models
from mnemosyne.cli.printing import print_json, say
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
"""The smallest useful answer, in tokens."""


@click.command()
@session_argument
@click.argument("question")
@click.option("--branch", metavar="BRANCH", help="Search only this branch.")
@click.option("--turns", type=Turns(), metavar="A-B", help="Only objects of these turns.")
@click.option(
    "--tokens",
    default=400,
    show_default=True,
    type=click.IntRange(SHORTEST),
    help="Maximum length of the answer. The model's own questions get 200 unless it asks for more.",
)
@click.option("--quotes", is_flag=True, help="Only quotes: do not use a helper model, even if one is configured.")
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
    """Answer a question with quotes from the content of a session. The model gets the same answer when it asks for
    evicted content.

    \b
      mnemosyne ask 319a "why is the pool limited to 20?"
      mnemosyne ask 319a "which tests failed?" --turns 10-20

    Each line is a quote and names its object. A configured helper model answers in sentences, each shown with the quote
    that supports it; a sentence without support is dropped.
    """
    if not question.strip():
        raise click.UsageError("QUESTION is empty.")
    chosen, report = Filter(branch=branch, turns=turns), partial(say, err=True)
    answer = with_read_models(
        log_of(options),
        lambda models: asking.ask(models, session, question, chosen, tokens, helper=not quotes, say=report),
    )
    print_notes(answer)
    if answer.helped is not None:
        say(render_helper(answer.helped), err=True)
    if as_json:
        print_json(_as_json(answer, question))
    else:
        _print(answer)


def _print(answer: MemoryAnswer) -> None:
    if not answer.cited:
        say(NOT_IN_MEMORY)
    for cited in answer.cited:
        if cited.sentence is not None:
            say(printable(cited.sentence), bold=True)
        for line in cited.quote.text.splitlines():
            say(printable(line.expandtabs(4)))
        source = cited.object
        stale = ", out of date" if source.stale else ""
        say(f"  — {source.id}, {source.kind.value}: {source_text(source)}, turn {turns_text(source)}{stale}")


def render_helper(helped: HelperAnswer | HelperAsked) -> str:
    """A sentence about the answer of a helper model."""
    cost = f"; {dollars_text(helped.nanodollars)}"
    dropped = f", {helped.dropped} more dropped" if helped.dropped else ""
    if helped.why is not None:
        return f"The helper {helped.helper} was asked, but the answer has quotes only: {helped.why}{dropped}{cost}."
    sentences = plural(len(helped.sentences), "sentence")
    return f"The helper {helped.helper} answered in {sentences}, each verified against its object{dropped}{cost}."


def helper_as_json(helped: HelperAnswer | HelperAsked) -> dict[str, Any]:
    """The answer of a helper model as JSON."""
    return {
        **members(helped, "helper dropped why"),
        "sentences": [members(sentence, "text object start end") for sentence in helped.sentences],
        "dollars": dollars(helped.nanodollars),
    }


def _as_json(answer: MemoryAnswer, question: str) -> dict[str, Any]:
    return {
        "question": question,
        "answered": bool(answer.cited),
        **members(answer, "embedder missing skipped", not_indexed="outside"),
        "helper": None if answer.helped is None else helper_as_json(answer.helped),
        "quotes": [
            {**members(cited, "sentence"), **origin_as_json(cited), **members(cited.quote, "start end text")}
            for cited in answer.cited
        ],
    }
