"""A summary is accepted with the losses that it declares, within their limits."""

import json

import attrs
import pytest

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.helper.summarize import PROPERTIES, SUMMARIZE, SummaryInputs
from mnemosyne.domain.helper.task import Accepted, Rejected
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.losses import Declared
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.summaries.renditions import ProposedRendition
from mnemosyne.domain.text.parts import PartRole, TextPart
from tests.domain.summaries.test_renditions import GOOD, SOURCE

INPUTS = SummaryInputs(
    deferred=DeferredSummary(
        object="o",
        fidelity=Fidelity.DETAILED,
        kind=ObjectKind.DESIGN_DECISION,
        source_tool="Bash",
        source_key="curl -H 'x-api-key: sk-ant-api03-abcdefghijklmnopqrst'",
        content=b"",
        by_user=(),
        detailed=None,
        lost=None,
        size=800,
        estimator=Estimator.of(None),
    ),
    parts=(TextPart(PartRole.ASSISTANT, SOURCE),),
)


def answer(**changes: object) -> str:
    return json.dumps({name: [] for name in PROPERTIES} | {"summary": GOOD} | changes)


def test_a_grounded_summary_is_accepted_with_its_declarations() -> None:
    verdict = SUMMARIZE.task.read(INPUTS, answer(dropped=["wording"], key_entities=["handleAuth"]))
    assert isinstance(verdict, Accepted)
    assert verdict.result == ProposedRendition(GOOD, Declared(dropped=("wording",), key_entities=("handleAuth",)))
    assert SUMMARIZE.task.read(INPUTS, verdict.text) == verdict


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": 1},
        {"dropped": "x"},
        {"dropped": [1]},
        {"dropped": ["x" * 1000]},
        {"dropped": ["x"] * 1000},
        {"summary": f"{GOOD} See src/never/seen.py."},
        {"fault_when": ["you need src/other/file.ts"]},
    ],
)
def test_declarations_are_limited_and_nothing_is_invented(changes: dict[str, object]) -> None:
    verdict = SUMMARIZE.task.read(INPUTS, answer(**changes))
    assert isinstance(verdict, Rejected)
    assert "src/" not in verdict.reasons[0], "a reason quotes nothing"


def test_the_prompt_has_the_source_and_the_size_but_no_credential() -> None:
    prompt = SUMMARIZE.task.write(INPUTS)
    assert "sk-ant" not in prompt.user
    assert SOURCE in prompt.user
    assert str(INPUTS.request.target_chars) in prompt.user
    longer = attrs.evolve(INPUTS, deferred=attrs.evolve(INPUTS.deferred, size=8_000))
    assert SUMMARIZE.task.write(longer).most_tokens > prompt.most_tokens
