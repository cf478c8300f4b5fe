"""The simulated provider cache against its documented rules and examples."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.catalogue import in_force, tariff_of
from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.cost.prompt import Keys, Markers, Prompt, PromptBlock, Tier, Ttl
from mnemosyne.domain.cost.prompt_cache import LOOKBACK, Cache, CacheRules, bill, rules_of, with_ends_only

SECOND = 1_000_000


def block(name: str, tokens: int = 100, tier: Tier = Tier.MESSAGES, kind: str = "text") -> PromptBlock:
    return PromptBlock(name.encode(), tokens, tier, kind)


def prompt_of(*names: str) -> Prompt:
    return Prompt(Keys(), [block(name) for name in names])


def numbered(count: int) -> Prompt:
    return prompt_of(*(str(number) for number in range(count)))


class Provider:
    """A cache and its requests; a reply begins when its request starts, unless ``begins`` is given."""

    def __init__(self, minimum: int = 0, rules: CacheRules | None = None) -> None:
        self.cache = Cache()
        self.minimum = minimum
        self.rules = rules or CacheRules()

    def ask(self, prompt: Prompt, markers: Markers, at: int = 0, begins: int | None = None) -> Tokens:
        self.cache, billed = bill(
            self.cache,
            prompt,
            markers,
            started_at=at * SECOND,
            readable_at=(at if begins is None else begins) * SECOND,
            minimum=self.minimum,
            rules=self.rules,
        )
        return billed.tokens


# The documented examples


def test_a_conversation_reads_its_earlier_writes_and_writes_its_new_blocks() -> None:
    provider = Provider()
    assert provider.ask(numbered(3), {2: "5m"}) == Tokens(write_5m=300)
    assert provider.ask(numbered(5), {4: "5m"}) == Tokens(read=300, write_5m=200)
    assert provider.ask(numbered(6), {4: "5m"}) == Tokens(read=500, input=100)


def test_a_second_marker_within_reach_of_the_entry_finds_it() -> None:
    provider = Provider()
    provider.ask(numbered(15), {14: "5m"})
    assert provider.ask(numbered(35), {14: "5m", 34: "5m"}) == Tokens(read=1500, write_5m=2000)


@pytest.mark.parametrize(("after", "is_hit"), [(LOOKBACK - 1, True), (LOOKBACK, False)])
def test_the_lookup_covers_twenty_positions_including_the_markers_own(after: int, is_hit: bool) -> None:
    provider = Provider()
    provider.ask(numbered(5), {4: "5m"})
    assert (provider.ask(numbered(5 + after), {4 + after: "5m"}).read > 0) is is_hit


def test_consecutive_tool_blocks_use_one_position_of_the_lookup() -> None:
    provider = Provider()
    provider.ask(numbered(1), {0: "5m"})
    run = numbered(1).extend(block("call", kind="tool_use") for _ in range(30))
    assert provider.ask(run, {30: "5m"}) == Tokens(read=100, write_5m=3000)


def test_only_marked_blocks_are_written() -> None:
    provider = Provider()
    provider.ask(numbered(3), {2: "5m"})
    assert provider.ask(prompt_of("0", "1", "x"), {2: "5m"}).read == 0


def test_a_marker_inside_the_read_part_writes_nothing() -> None:
    provider = Provider()
    provider.ask(numbered(3), {2: "5m"})
    assert provider.ask(numbered(3), {0: "1h", 2: "5m"}) == Tokens(read=300)
    assert provider.ask(prompt_of("0", "x"), {0: "5m"}).read == 0


def test_below_the_smallest_size_nothing_is_written() -> None:
    provider = Provider(minimum=201)
    assert provider.ask(numbered(2), {1: "5m"}) == Tokens(input=200)
    assert provider.cache.entries == {}
    assert provider.ask(numbered(3), {1: "5m", 2: "5m"}) == Tokens(write_5m=300)
    assert Provider(minimum=200).ask(numbered(2), {1: "5m"}) == Tokens(write_5m=200)


def test_mixed_lifetimes_are_billed_by_three_boundaries() -> None:
    provider = Provider()
    provider.ask(numbered(2), {1: "5m"})
    use = provider.ask(numbered(9), {1: "1h", 4: "1h", 6: "5m"})
    assert use == Tokens(read=200, write_1h=300, write_5m=200, input=200)


# Lifetimes


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_an_entry_lives_from_the_start_of_the_request_that_last_read_it(ttl: Ttl, seconds: int) -> None:
    provider = Provider()
    provider.ask(numbered(1), {0: ttl}, at=0, begins=60)
    assert provider.ask(numbered(1), {0: ttl}, at=seconds - 1).read
    assert provider.ask(numbered(1), {0: ttl}, at=2 * seconds - 2).read
    assert not provider.ask(numbered(1), {0: ttl}, at=3 * seconds - 2).read


def test_a_read_renews_the_marked_entries_inside_it_and_no_others() -> None:
    provider = Provider()
    provider.ask(numbered(2), {0: "5m", 1: "5m"}, at=0)
    provider.ask(numbered(3), {0: "5m", 2: "5m"}, at=200)
    assert provider.ask(prompt_of("0", "x"), {0: "5m"}, at=400).read == 100
    provider = Provider()
    provider.ask(numbered(2), {0: "5m", 1: "5m"}, at=0)
    provider.ask(numbered(3), {2: "5m"}, at=200)
    assert provider.ask(prompt_of("0", "x"), {0: "5m"}, at=400).read == 0


def test_an_entry_found_by_lookback_is_renewed() -> None:
    provider = Provider()
    provider.ask(numbered(1), {0: "5m"}, at=0)
    provider.ask(numbered(2), {1: "5m"}, at=200)
    assert provider.ask(prompt_of("0", "x"), {1: "5m"}, at=400).read == 100


@pytest.mark.parametrize("order", [("1h", "5m"), ("5m", "1h")])
def test_the_longer_lifetime_of_two_parallel_writers_counts(order: tuple[Ttl, Ttl]) -> None:
    provider = Provider()
    for ttl in order:
        provider.ask(numbered(1), {0: ttl}, at=0, begins=1)
    assert provider.ask(numbered(1), {0: "5m"}, at=3000).read == 100


def test_parallel_requests_all_pay_until_the_first_reply_begins() -> None:
    provider = Provider()
    assert provider.ask(numbered(1), {0: "5m"}, at=0, begins=3) == Tokens(write_5m=100)
    assert provider.ask(numbered(1), {0: "5m"}, at=1, begins=9) == Tokens(write_5m=100)
    assert provider.ask(numbered(1), {0: "5m"}, at=2, begins=9) == Tokens(write_5m=100)
    assert provider.ask(numbered(1), {0: "5m"}, at=3) == Tokens(read=100)


def test_entries_are_not_readable_before_the_writers_reply_begins() -> None:
    cache, first = bill(Cache(), numbered(1), {0: "5m"}, started_at=0, minimum=0)
    assert bill(cache, numbered(1), {0: "5m"}, started_at=5, minimum=0)[1].tokens.read == 0
    cache = cache.begin_reply(first.written, at=5)
    assert bill(cache, numbered(1), {0: "5m"}, started_at=4, minimum=0)[1].tokens.read == 0
    assert bill(cache, numbered(1), {0: "5m"}, started_at=5, minimum=0)[1].tokens.read == 100


def test_expired_entries_are_removed() -> None:
    provider = Provider()
    for turn in range(50):
        provider.ask(prompt_of(str(turn)), {0: "5m"}, at=turn * 301)
    assert len(provider.cache.entries) == 1


# Laws

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=30)
TTLS: st.SearchStrategy[Ttl] = st.sampled_from(["5m", "1h"])
MARKED = st.dictionaries(st.integers(0, 29), TTLS, max_size=4)
REQUESTS = st.lists(st.tuples(NAMES, MARKED, st.integers(0, 2000)), min_size=1, max_size=8)


def within(markers: Markers, prompt: Prompt) -> dict[int, Ttl]:
    return {number: ttl for number, ttl in markers.items() if number < len(prompt)}


@given(REQUESTS, st.integers(0, 1500))
def test_billed_parts_add_up_to_the_prompt(requests: list[tuple[list[str], Markers, int]], minimum: int) -> None:
    provider, now = Provider(minimum), 0
    for names, markers, gap in requests:
        now += gap
        prompt = prompt_of(*names)
        use = provider.ask(prompt, within(markers, prompt), now)
        assert use.prompt == prompt.tokens
        assert min(use.read, use.write_5m, use.write_1h, use.input) >= 0


@given(REQUESTS)
def test_a_repeated_prompt_reads_everything_up_to_its_last_marker(
    requests: list[tuple[list[str], Markers, int]],
) -> None:
    provider, now = Provider(), 0
    for names, markers, gap in requests:
        now += gap
        prompt = prompt_of(*names)
        fitting = within(markers, prompt)
        provider.ask(prompt, fitting, now)
        last = prompt[max(fitting)].tokens if fitting else 0
        assert provider.ask(prompt, fitting, now) == Tokens(read=last, input=prompt.tokens - last)


CONVERSATION = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(1, 25)), min_size=1, max_size=12
)


@given(CONVERSATION)
def test_a_longer_lifetime_never_reads_less(turns: list[tuple[int, int, int]]) -> None:
    """For a client that marks the same head and the end of each request, and sometimes drops part of its history."""
    brief, long = Provider(), Provider()
    prompt, now = prompt_of("head"), 0
    for turn, (gap, dropped, added) in enumerate(turns):
        now += gap
        kept = prompt.truncate(max(1, len(prompt) - dropped))
        prompt = kept.extend(block(f"{turn}/{number}") for number in range(added))
        tail = len(prompt) - 1
        short = brief.ask(prompt, {0: "5m", tail: "5m"}, now)
        assert long.ask(prompt, {0: "1h", tail: "1h"}, now).read >= short.read


@given(REQUESTS)
def test_money_and_equivalents_add_up_exactly(requests: list[tuple[list[str], Markers, int]]) -> None:
    price, provider = in_force().prices["claude-opus-5-5"], Provider()
    uses = []
    for names, markers, _ in requests:
        prompt = prompt_of(*names)
        uses.append(provider.ask(prompt, within(markers, prompt)))
    together = sum(uses, Tokens())
    assert sum(price.equivalents(use) for use in uses) == price.equivalents(together)
    assert price.equivalents(together) * price.input == price.nanodollars(together)
    read, five, hour = Fraction(1, 20), Fraction(5, 4), 2
    plain = together.input + together.read * read + together.write_5m * five + together.write_1h * hour
    assert price.equivalents(together) == plain


# Providers that cache without markers


def headed(*names: str, size: int = 100) -> Prompt:
    """Return a prompt of a system block and these messages, each of this size in tokens."""
    messages = (block(name, size) for name in names)
    return Prompt(Keys(), [block("You are an agent.", size, tier=Tier.SYSTEM), *messages])


def test_a_slot_reads_the_common_prefix_without_a_marker_at_any_later_time() -> None:
    provider = Provider(rules=rules_of(tariff_of("local")))
    assert provider.ask(headed("a"), {}) == Tokens(input=200)
    long = [str(number) for number in range(2 * LOOKBACK)]
    assert provider.ask(headed("a", *long), {0: "5m"}, at=10**6) == Tokens(read=200, input=4_000)
    assert provider.ask(headed("rewritten"), {}, at=2 * 10**6) == Tokens(read=100, input=100)


def test_another_prompt_replaces_a_single_slot_but_not_an_entry_of_a_hosted_cache() -> None:
    """A request for a title, between two of a conversation."""
    title = Prompt(Keys(), [block("Write a title.", 1024, tier=Tier.SYSTEM), block("a", 1024)])
    for name, read in (("local", 0), ("openai-before-5.6", 2048)):
        provider = Provider(rules=rules_of(tariff_of(name)))
        provider.ask(headed("a", size=1024), {})
        provider.ask(title, {}, at=1)
        used = provider.ask(headed("a", "b", size=1024), {}, at=2)
        assert used == Tokens(read=read, input=3072 - read), name


def test_writes_are_billed_separately_only_if_they_cost_more_than_plain_input() -> None:
    for name, used in (("openai", Tokens(write_5m=2048)), ("openai-before-5.6", Tokens(input=2048))):
        assert Provider(rules=rules_of(tariff_of(name))).ask(headed("a", size=1024), {}) == used, name


def test_a_hosted_cache_without_markers_expires_by_its_tariff() -> None:
    for name, minutes in (("openai", 30), ("openai-before-5.6", 5)):
        provider = Provider(rules=rules_of(tariff_of(name)))
        asked = headed("a", size=1024)
        provider.ask(asked, {})
        assert provider.ask(asked, {}, at=60 * minutes - 1).read == 2048, name
        assert provider.ask(asked, {}, at=120 * minutes).read == 0, name


def test_a_hosted_cache_reads_whole_units_and_ignores_short_prompts() -> None:
    for name, read in (("openai", 1_200), ("openai-before-5.6", 1_152)):  # 9 units of 128
        provider = Provider(rules=rules_of(tariff_of(name)))
        short, long = headed("a", size=511), headed("b", size=600)
        assert [provider.ask(short, {}, at=at).read for at in (0, 1)] == [0, 0], name
        assert [provider.ask(long, {}, at=at).read for at in (2, 3)] == [0, read], name


def test_a_changed_prompt_is_read_up_to_its_change_only_where_writes_are_free() -> None:
    for name, read in (("openai", 1_100), ("openai-before-5.6", 3_456), ("local", 3_500)):
        rules = rules_of(tariff_of(name))
        cache, _ = bill(
            Cache(), headed("a", "b", "c", size=1_100), {}, started_at=0, minimum=0, readable_at=0, rules=rules
        )
        now = headed("a", "b", "changed", size=1_100)
        _, billed = bill(cache, now, {}, started_at=1, minimum=0, rules=rules, shared=3_500)
        assert billed.tokens.read == read, name
        _, earlier = bill(cache, now, {}, started_at=1, minimum=0, rules=with_ends_only(rules), shared=3_500)
        assert earlier.tokens.read == (1_100 if name == "local" else 1_024), name


def test_an_entry_inside_a_message_is_not_read_where_only_whole_messages_are() -> None:
    provider = Provider(rules=rules_of(tariff_of("openai")))
    provider.ask(headed("a", size=1_100), {})
    again = headed("a", "b", size=1_100)
    _, billed = bill(
        provider.cache, again, {}, started_at=1, minimum=0, rules=provider.rules, may_end=[0, 2].__contains__
    )
    assert billed.tokens.read == 1_100
