"""A summary is accepted with the losses that it declares, within their limits."""

import json

import attrs
import pytest

from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.helper.summarize import COMPRESS, LONGEST_SENT, PROPERTIES, SUMMARIZE, SummaryInputs
from mnemosyne.domain.helper.task import Accepted, Rejected
from mnemosyne.domain.objects.events import Losses
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind
from mnemosyne.domain.objects.work import DeferredSummary
from mnemosyne.domain.summaries.renditions import ProposedRendition
from mnemosyne.domain.text.parts import PartRole, TextPart
from tests.domain.helper.accepting import accepted
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
    verdict = accepted(SUMMARIZE, INPUTS, answer(dropped=["wording"], key_entities=["handleAuth"]))
    assert verdict.result == ProposedRendition(GOOD, Losses(dropped=("wording",), key_entities=("handleAuth",)))
    assert SUMMARIZE.read(INPUTS, verdict.text) == verdict


def test_a_blank_phrase_and_a_copy_of_the_example_declare_nothing() -> None:
    """A small model filled its lists with both."""
    given = {"dropped": ["the bodies of the three helpers", " ", "wording"], "can_answer": [""]}
    for task in (SUMMARIZE, COMPRESS):
        verdict = accepted(task, attrs.evolve(INPUTS, detailed=SOURCE), answer(**given))
        assert (verdict.record["dropped"], verdict.record["can_answer"]) == (["wording"], [])


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": 1},
        {"dropped": "x"},
        {"dropped": [1]},
        {"dropped": ["x" * 1000]},
        {"dropped": ["x"] * 1000},
        {"summary": "See src/never/seen.py."},
    ],
)
def test_declarations_are_limited_and_a_summary_has_more_than_inventions(changes: dict[str, object]) -> None:
    verdict = SUMMARIZE.read(INPUTS, answer(**changes))
    assert isinstance(verdict, Rejected)
    assert "src/" not in verdict.reasons[0], "a reason quotes nothing"


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": f"{GOOD} See src/never/seen.py."},
        {"summary": f"See src/never/seen.py.\n{GOOD}"},
        {"can_answer": ["what src/other/file.ts does"]},
        {"key_entities": ["handle_refund()"]},
    ],
)
def test_a_sentence_or_phrase_with_an_invention_is_dropped_and_counted(changes: dict[str, object]) -> None:
    verdict = accepted(SUMMARIZE, INPUTS, answer(**changes))
    assert verdict.result == ProposedRendition(GOOD, Losses())
    (reason,) = verdict.dropped
    assert reason.startswith("1 ")
    assert accepted(SUMMARIZE, INPUTS, verdict.text).dropped == ()


def test_a_summary_promises_only_what_it_has() -> None:
    shorter, promise = GOOD.partition(" src/net")[0], "at which version src/net/retry.ts stays"
    for summary, held in ((GOOD, (promise,)), (shorter, ())):
        verdict = accepted(SUMMARIZE, INPUTS, answer(summary=summary, can_answer=[promise]))
        assert verdict.result.declared.can_answer == held


def test_a_long_text_is_read_at_both_ends_and_the_rest_is_a_declared_loss() -> None:
    lines = [f"Line {number} of the report has the value {number * 7}." for number in range(2_000)]
    long = attrs.evolve(INPUTS, parts=(TextPart(PartRole.RESULT, "\n".join(lines)),))
    assert lines[0] in long.sent
    assert lines[-1] in long.sent
    assert len(long.sent) <= LONGEST_SENT + 10
    (unread,) = long.unread
    assert unread.endswith("lines in the middle")
    assert long.request.text == "\n".join(lines), "the summary is verified against the whole"


def test_the_users_words_are_not_summarized_because_the_window_shows_them() -> None:
    said = attrs.evolve(INPUTS, parts=(TextPart(PartRole.USER, "Please mend it."), *INPUTS.parts))
    assert "Please mend it." not in SUMMARIZE.write(said).user
    assert said.unread == ("the user's words, which the window has",)


def test_an_l2_is_made_of_the_l1_and_the_names_of_the_original() -> None:
    shorter = attrs.evolve(
        INPUTS, detailed="The L1.", deferred=attrs.evolve(INPUTS.deferred, fidelity=Fidelity.COMPACT)
    )
    prompt = COMPRESS.write(shorter)
    assert "The L1." in prompt.user
    assert "src/net/retry.ts" in prompt.user
    assert SOURCE not in prompt.user
    short = "src/auth/middleware.ts: handleAuth answers an expired token with HTTP 401; jwt_cookie stays, not v2.1.3."
    verdict = COMPRESS.read(shorter, answer(summary=short))
    assert isinstance(verdict, Accepted)
    assert COMPRESS.read(shorter, verdict.text) == verdict


def test_the_prompt_names_the_lines_of_a_part_of_a_file() -> None:
    part = attrs.evolve(INPUTS, deferred=attrs.evolve(INPUTS.deferred, lines="20-60"))
    assert '"only_its_lines": "20-60"' in SUMMARIZE.write(part).user
    assert "only_its_lines" not in SUMMARIZE.write(INPUTS).user


def test_the_prompt_has_the_source_and_the_size_but_no_credential() -> None:
    prompt = SUMMARIZE.write(INPUTS)
    assert "sk-ant" not in prompt.user
    assert SOURCE in prompt.user
    assert str(INPUTS.request.target_chars) in prompt.user
    longer = attrs.evolve(INPUTS, deferred=attrs.evolve(INPUTS.deferred, size=8_000))
    assert SUMMARIZE.write(longer).most_tokens > prompt.most_tokens
