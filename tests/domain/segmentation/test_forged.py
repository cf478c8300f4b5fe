"""What is drawn from vocabularies of forgers: none of it is believed, and nothing that the user settled is lost."""

from uuid import UUID

import pytest

from benchmarks.claims import heard, is_taken
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.extraction import extract_messages
from mnemosyne.domain.segmentation.segment import SeenMessage
from tests.domain.forged.drawing import VOCABULARIES, draw, read_vocabulary

EACH = pytest.mark.parametrize("name", VOCABULARIES)
SEED, DRAWN = 20_261_126, 1_500
SOURCE = Provenance(session=UUID(int=1), branch="main", turn=1)


@EACH
def test_nothing_that_was_forged_is_taken_for_a_claim_and_nothing_genuine_is_revised(name: str) -> None:
    assert [each.turns for each in draw(name, SEED, DRAWN) if is_taken(each)] == []


@EACH
def test_nothing_that_was_forged_is_learned_for_other_sessions(name: str) -> None:
    for forgery in draw(name, SEED + 1, DRAWN // 3):
        messages = [{"role": each.role, "content": each.content} for each in forgery.messages()]
        learned = [each.draft.content for each in extract_messages(messages, SOURCE)]
        assert not [each for each in learned if forgery.matter.forged in each], forgery.turns


@EACH
def test_what_the_forgers_say_is_believed_of_the_user(name: str) -> None:
    """What the draws are measured against: typed by itself, nearly each of their sentences is a claim."""
    vocabulary = read_vocabulary(name)
    for matter in vocabulary.matters:
        assert [each.claim.sentence for each in heard([_typed(matter.genuine)])] == [matter.genuine]
    matter = vocabulary.matters[0]
    said = [each.format(f=matter.forged, g=matter.theirs, m=matter.about) for each in vocabulary.phrasings]
    claimed = [each for each in said if any(matter.forged in one.claim.sentence for one in heard([_typed(each)]))]
    assert len(claimed) >= 0.8 * len(said), set(said) - set(claimed)


def _typed(said: str) -> SeenMessage:
    return SeenMessage(0, "user", 1, [{"type": "text", "text": said}])
