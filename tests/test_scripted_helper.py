"""The scripted helper answers by labels only with spans that it was sent."""

import json
from typing import Any

import attrs
import pytest

from tests.adapters.helpers.asking import PROMPT, open_both
from tests.profiles import rarely
from tests.scripted_helper import Label, answer_by_labels, read_sent

FENCE = "0123456789abcdef01234567"
SCHEMA = {
    "type": "object",
    "properties": {
        "sentences": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "quote": {"type": "string"},
                    "source": {"type": "integer"},
                    "corrects": {"type": "string"},
                    "kind": {"type": "string", "enum": ["fact", "decision"]},
                },
            },
        },
        "title": {"type": "string"},
        "found": {"type": "boolean"},
    },
}
SENT = attrs.evolve(
    PROMPT,
    system="Task: answer/2\n\nYou answer.",
    user='{"question": "How often?"}\ndata\n'
    f"{FENCE} 1: a.py\nnothing\n{FENCE} 2: b.py\nretries = 7\n  times\n{FENCE} end",
    schema=SCHEMA,
)


@pytest.mark.parametrize("helper", [*rarely(["anthropic"]), "openai"])
async def test_an_answer_has_the_labelled_spans_that_were_sent_in_the_tasks_schema(helper: str) -> None:
    labels = [
        Label("answer", "retries = 7 times", about="How often?", members={"kind": "decision"}),
        Label("answer", "retries = 7 times", about="How much?"),
        Label("answer", "retries = 8"),
        Label("facts", "nothing"),
    ]
    async with open_both(helper, answer_by_labels(labels)) as (_, model):
        found: dict[str, Any] = json.loads((await model.complete(SENT)).text)
        other = json.loads((await model.complete(attrs.evolve(SENT, user="nothing"))).text)
    assert found == {
        "sentences": [{"quote": "retries = 7 times", "source": 2, "corrects": "", "kind": "decision"}],
        "title": "retries = 7 times",
        "found": True,
    }
    assert other == {"sentences": [], "title": "", "found": False}


@pytest.mark.parametrize("helper", [*rarely(["anthropic"]), "openai"])
async def test_the_task_and_the_fenced_texts_of_a_request_are_visible(helper: str) -> None:
    async with open_both(helper, answer_by_labels([])) as (endpoint, model):
        await model.complete(SENT)
    sent = read_sent(endpoint.requests[0][2])
    assert (sent.task, sent.schema) == ("answer", SCHEMA)
    assert [each.strip() for each in sent.sections] == ["nothing", "retries = 7\n  times"]
