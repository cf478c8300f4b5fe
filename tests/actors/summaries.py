"""Texts that are worth a short form, and the recorded short forms, for tests."""

from typing import Any

import attrs

from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.session.budget import Budget
from mnemosyne.domain.session.decision_inputs import RecordWork
from tests.actors.support import StoppableLog, events_of

ENOUGH_MONEY = Budget(10**12, 1.0)

FACTS = (
    "The parser in src/{0}/parser_{0}.py fails on line {1} with KeyError: '{0}_name', as {0}.toml lacks a section.",
    "The database {0}_db listens on port 5{1} and is asked {1} times, since {0}_balancer drops idle connections.",
    "The function load_{0}_{1}() returns None where the file is missing; its caller main_{0}() does not check that.",
    "Running make {0}-test took {1}.5 seconds; tests/test_{0}.py::test_{1} is the slowest with 3.1 seconds of them.",
)


def long_text(name: str, size: int = 6_000) -> str:
    """A text of about ``size`` characters on a topic of its own, worth a summary."""
    return "\n".join(FACTS[number % len(FACTS)].format(name, number) for number in range(size // 100))


async def summaries(log: StoppableLog) -> list[ObjectSummarized]:
    """The recorded summaries, in order."""
    return [event for event in await events_of(log) if isinstance(event, ObjectSummarized)]


def worked(subject: str, **fields: Any) -> RecordWork:
    """A helper's work on a summary, to be recorded."""
    work = RecordWork(
        at=3,
        task="summarize",
        version=1,
        helper="scripted",
        subject=subject,
        branch=None,
        turn=None,
        prompt=b"p" * 32,
        key=b"k" * 32,
        record="{}",
        rejected=(),
        dropped=(),
        cached=False,
        read=7,
        written=3,
        nanodollars=5,
    )
    return attrs.evolve(work, **fields)
