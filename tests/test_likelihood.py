"""The likelihood benchmark: its contexts, its scores with a scripted model, and its statistics."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from benchmarks.likelihood import find_model, load
from benchmarks.likelihood.announcements import NOW, RENDERINGS, STUBBED, WHOLE, list_chains
from benchmarks.likelihood.contexts import ANSWERED, EVICTED, FULL, GRADED, MASKED, NATIVE, OPEN, STUB, Case, cases_of
from benchmarks.likelihood.judging import score_case
from benchmarks.likelihood.model import Engine, Floats, Scored, score
from benchmarks.likelihood.statistics import Result, area_under_curve, estimate, least_predictable, mean_added, ratio
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.trace import Trace, trace_of

Json = dict[str, Any]


class Words:
    """A tokenizer of words and single other characters."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return [self._numbers.setdefault(each, len(self._numbers)) for each in re.findall(r"\w+|\W", text)]

    def decode(self, tokens: Sequence[int]) -> str:
        words = list(self._numbers)
        return "".join(words[each] for each in tokens)


class Copying(Engine):
    """A scripted model: tokens that it has read are more likely than others. Its past is their numbers."""

    SIZE = 3_000

    def __init__(self) -> None: ...

    def run(self, tokens: Sequence[int], past: Floats) -> tuple[Floats, Floats]:
        seen = np.zeros((len(tokens), self.SIZE), np.float32)
        for number, token in enumerate(tokens):
            seen[number:, token] = 1
        seen[:, past[0, 0, 0, :, 0].astype(int)] = 1
        return seen, np.array(tokens, np.float32).reshape(1, 1, 1, -1, 1)

    def losses(self, hidden: Floats, tokens: Sequence[int]) -> Floats:
        logits = 8 * hidden
        found: Floats = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(tokens)), list(tokens)]
        return found


FILE = "\n".join(f"value_{number} = compute(alpha_{number}, beta_{number * 7})" for number in range(40))


def call(number: int, tool: str, announcement: str = "", **given: str) -> Json:
    said = [{"type": "text", "text": announcement}] if announcement else []
    content = [*said, {"type": "tool_use", "id": f"t{number}", "name": tool, "input": given}]
    return {"role": "assistant", "content": content}


def result(number: int, text: str) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": text}]}


def session(action: Mapping[str, str], rounds: int = 5) -> Trace:
    """A file is read, other calls follow, and then the action."""
    messages = [{"role": "user", "content": "Please change the computation."}]
    messages += [call(0, "Read", file_path="/src/compute.py"), result(0, FILE)]
    for number in range(1, rounds + 1):
        messages += [
            call(number, "Bash", f"Now step {number}:", command=f"run {number}"),
            result(number, f"all of {number} is well"),
        ]
    messages.append(call(rounds + 1, "Edit", "Now the edit:", **action))
    turns = [{"msg": number} for number in range(1, len(messages), 2)]
    return trace_of(recording("a test", {"name": "made", "messages": messages, "turns": turns}))


NEEDING = {"file_path": "/src/compute.py", "old_string": "value_31 = compute(alpha_31, beta_217)"}
OTHER = {"file_path": "/src/new.py", "content": "print"}


def case_of(action: Mapping[str, str]) -> Case:
    cases = cases_of(session(action), "someone", Words())
    return next(each for each in cases if "the edit" in each.action)


def test_an_action_needs_an_object_whose_words_stand_nowhere_else() -> None:
    assert case_of(NEEDING).needed
    assert not case_of(OTHER).needed


def test_contexts_differ_only_in_the_object_and_its_rendering() -> None:
    texts = case_of(NEEDING).texts
    last = texts[FULL].rpartition("Now step 5:")[2]
    assert all(last in text for text in texts.values())
    assert {way for way, text in texts.items() if FILE in text} == {FULL}
    assert "in part" in texts[GRADED]
    assert " left] " in texts[STUB]
    assert "Next, out of context" in texts[EVICTED]
    assert "lines omitted" in texts[MASKED]
    assert "cleared" in texts[NATIVE]
    assert texts[ANSWERED].startswith(texts[EVICTED].removesuffix(OPEN))
    assert "beta_0" in texts[ANSWERED]


def test_an_action_costs_more_without_the_object_that_it_needs() -> None:
    words = Words()
    (needing,) = [each for each in cases_of(session(NEEDING), "someone", words) if "the edit" in each.action]
    found = score_case(needing, Copying(), words)
    losses = found["needed_losses"]
    assert losses[EVICTED] > losses[FULL]
    assert losses[EVICTED] > losses[GRADED]
    assert found["context_tokens"][EVICTED] < found["context_tokens"][GRADED] < found["context_tokens"][FULL]


def test_sequences_with_a_common_beginning_score_as_alone() -> None:
    first, second = Scored([*range(200), 7], 150), Scored([*range(130), 900, 5, 901], 131)
    together = score(Copying(), [first, second])
    assert np.array_equal(together[1], score(Copying(), [second])[0])


def test_a_rewritten_history_keeps_announcements_without_their_calls() -> None:
    chains = (chain for _, chain in list_chains(session(OTHER, rounds=6)) if chain.announcement == "Now the edit:")
    texts = dict(zip(RENDERINGS, next(chains).texts(), strict=True))
    assert {name for name, text in texts.items() if "command: run 1\n" in text} == {WHOLE, STUBBED}
    assert {name for name, text in texts.items() if "Now step 1:" in text} == {WHOLE, NOW, STUBBED}
    assert all(text.endswith("Now the edit:") and "run 6" in text for text in texts.values())


def scored(session: str, needed: int, **losses: float) -> Result:
    return Result(session, needed, {"full": 1.0, **losses})


def test_statistics_of_scored_actions() -> None:
    results = [
        scored("a", 5, thrifty=1.8, graded=1.2),
        scored("a", 0, thrifty=1.1, graded=1.0),
        scored("b", 4, thrifty=1.4, graded=1.1),
        scored("b", 0, thrifty=1.4, graded=1.0),
    ]
    needing = [each for each in results if each.needed]
    mean = estimate(needing, mean_added("thrifty", "full"))
    assert mean is not None
    assert (mean.value, mean.low, mean.high) == pytest.approx((0.6, 0.4, 0.8))
    assert ratio("graded", "thrifty", "full")(needing) == pytest.approx(0.25)
    assert area_under_curve("thrifty", "full")(results) == pytest.approx(0.875)
    assert area_under_curve("thrifty", "full")(needing) is None
    assert least_predictable([0.1, 3.0, 0.2, 2.0], 0.5) == [1, 3]


def test_the_model_finds_an_action_likelier_whose_object_it_has_read() -> None:
    path = find_model()
    if path is None:
        pytest.skip("there is no small model here: `make likelihood` installs one")
    weights, tokenizer = load(path)
    engine = Engine(weights)
    for read, action in (
        ("port = 47311", "connect(47311)"),
        ("def quash_ledger():", "quash_ledger()"),
        ("error E2207 in line 93", "fix E2207 in line 93"),
        ("the token is kiwi-55", "use kiwi-55"),
    ):
        contexts = [f"{text}\n> " for text in (read, "[left]")]
        full, evicted = score(
            engine, [Scored(tokenizer.encode(text + action), len(tokenizer.encode(text))) for text in contexts]
        )
        assert full.mean() < evicted.mean()
