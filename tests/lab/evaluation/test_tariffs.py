"""A tariff weighs tokens; its cache is the provider's, or one slot."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.catalogue import in_force
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Prompt, PromptBlock, Tier
from mnemosyne.domain.cost.tariffs import FOREVER
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.policy import API_1H, API_5M, LOCAL, QUOTA, TARIFFS, as_slot, choose_tariffs
from tests.profiles import examples

OPUS = in_force().prices["claude-opus-4-5"]
TOKENS = Tokens(input=1, output=10, read=100, write_5m=1_000, write_1h=10_000)


def test_dollars_follow_the_price_list() -> None:
    for tariff, write in ((API_5M, Fraction(5, 4)), (API_1H, Fraction(2))):
        weights = tariff.weights_at(OPUS)
        assert (weights.read, tariff.write_at(OPUS), weights.output) == (Fraction(1, 10), write, Fraction(5))
        assert tariff.equivalents(TOKENS, OPUS) == OPUS.equivalents(TOKENS)


def test_quota_counts_every_prompt_token_cached_or_not() -> None:
    assert QUOTA.equivalents(Tokens(read=700), OPUS) == QUOTA.equivalents(Tokens(input=700), OPUS) == 700
    assert QUOTA.equivalents(Tokens(write_1h=700), OPUS) == 700


def test_local_machine_is_charged_for_read_tokens_and_never_expires() -> None:
    assert LOCAL.equivalents(TOKENS, OPUS) == 11_001
    assert LOCAL.forgets_after == FOREVER > API_1H.forgets_after > API_5M.forgets_after


def prompt(text: str) -> Prompt:
    return Prompt(blocks=[PromptBlock(each.encode(), 10, Tier.MESSAGES, "text") for each in text])


@examples(100)
@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_slot_reads_everything_after_the_common_prefix(before: str, now: str) -> None:
    common = 0
    while common < min(len(before), len(now)) and before[common] == now[common]:
        common += 1
    assert as_slot(prompt(before), prompt(now)) == Tokens(read=10 * common, input=10 * (len(now) - common))


def test_tariffs_are_chosen_by_name_in_a_fixed_order_and_others_refused() -> None:
    assert choose_tariffs([]) == []
    assert choose_tariffs(["all"]) == list(TARIFFS)
    assert choose_tariffs(["local", "api-1h", "local"]) == [API_1H, LOCAL]
    with pytest.raises(
        BadOption, match=r"There is no tariff .free.; there are api-5m, .*, openai-before-5\.6, local, and all"
    ):
        choose_tariffs(["free"])
