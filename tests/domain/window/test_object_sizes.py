"""An object is measured alone, in its wire form."""

from typing import Any

from mnemosyne.domain.cost.tokens import Estimator, Features, features_of_text
from mnemosyne.domain.objects.aggregate import make_object as made_of
from mnemosyne.domain.objects.events import BlockPlace
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.object_sizes import Size, alone, size_of
from tests.domain.remembered import created

USUAL = Estimator.of(None)
TEXT = "a line of some file\n" * 200
CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "src/a.py"}}
THOUGHT = {"type": "thinking", "thinking": "hm " * 50, "signature": "s" * 40}
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "read it"}]},
    {"role": "assistant", "content": [THOUGHT, CALL]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": TEXT}]},
]
PLACES = (BlockPlace(1, 0), BlockPlace(1, 1), BlockPlace(2, 0))


def measured(texts: dict[Fidelity, str] | None = None, before: Size | None = None) -> Size:
    def text_size(fidelity: Fidelity) -> Features | None:
        text = (texts or {}).get(fidelity)
        return None if text is None else features_of_text(text)

    each = made_of(created("o", places=PLACES))
    return size_of(each, alone(PLACES, HISTORY.__getitem__), text_size, before)


def tokens_of(size: Size) -> tuple[int, int | None, int | None, int, int]:
    return size.tokens(USUAL, size.count_full(USUAL)[0])


def test_lower_fidelity_is_smaller() -> None:
    texts = {Fidelity.DETAILED: TEXT[:1_200], Fidelity.COMPACT: TEXT[:200]}
    sizes = [each for each in tokens_of(measured(texts)) if each is not None]
    assert len(sizes) == len(Fidelity)
    assert sizes == sorted(sizes, reverse=True)


def test_incremental_measurement_equals_a_full_one() -> None:
    texts = {Fidelity.DETAILED: TEXT[:1_200], Fidelity.COMPACT: TEXT[:200]}
    first = measured({Fidelity.COMPACT: texts[Fidelity.COMPACT]})
    assert measured(texts, before=first) == measured(texts)
    told = [each.at[1:3] for each in (measured(before=measured(texts)), measured(texts))]
    assert told[0] == told[1], "what is known is not measured again"


def test_missing_rendition_has_no_size() -> None:
    full, detailed, compact, stub, _ = tokens_of(measured())
    assert (detailed, compact) == (None, None)
    assert stub < full
