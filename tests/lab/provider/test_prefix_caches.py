"""The cached prefix of a prompt: in units of an automatic cache, and in the slots of a local server."""

import pytest

from mnemosyne_lab.provider.cache import LEAST, LIFETIME, UNIT, AutomaticCache, LocalServer, Slots
from mnemosyne_lab.provider.reading import tokens

LONG = "".join(f"line {number}\n" for number in range(2000))


def test_automatic_cache_finds_the_longest_prefix_in_whole_units() -> None:
    cache = AutomaticCache()
    first = cache.look(LONG, "k", 0)
    assert first.cached == 0
    first.keep("")
    found = cache.look(LONG + "and more", "k", 1).cached
    assert found % UNIT == 0
    assert first.total - UNIT < found <= first.total
    half = len(LONG) // 2
    shared = cache.look(LONG[:half] + "!" + LONG[half:], "k", 1).cached
    assert tokens(half) - UNIT < shared <= tokens(half)


def test_model_that_bills_its_writes_caches_prompts_at_breakpoints_alone() -> None:
    cache, breaks = AutomaticCache(), [len(LONG) // 2, len(LONG)]
    first = cache.look(LONG, "k", 0, breaks)
    first.keep("")
    assert (first.cached, first.written) == (0, first.total)
    assert first.details == {"cached_tokens": 0, "cache_write_tokens": first.total}
    later = LONG + "and more"
    assert cache.look(later, "k", 1, [len(LONG) // 2, len(later)]).cached == first.total
    changed = LONG[:-9] + "!" + LONG[-9:]
    assert cache.look(changed, "k", 1, [len(LONG) // 2, len(changed)]).cached == tokens(len(LONG) // 2)


def test_written_prefix_is_read_only_after_its_reply_began() -> None:
    cache = AutomaticCache()
    cache.look(LONG, "k", 0)
    assert cache.look(LONG, "k", 0).cached == 0


def test_prefix_expires_if_unused_for_its_lifetime() -> None:
    cache = AutomaticCache()
    cache.look(LONG, "k", 0).keep("")
    cache.look(LONG, "k", LIFETIME).keep("")
    assert cache.look(LONG, "k", 2 * LIFETIME).cached > 0
    assert cache.look(LONG, "k", 2 * LIFETIME + 1).cached == 0


def test_other_key_shares_nothing_and_a_short_prompt_is_not_cached() -> None:
    cache = AutomaticCache()
    cache.look(LONG, "k", 0).keep("")
    assert cache.look(LONG, "other", 0).cached == 0
    short = LONG[: int(LEAST / 0.366) - UNIT]
    cache.look(short, "s", 0).keep("")
    assert cache.look(short, "s", 0).cached == 0


def test_slot_also_holds_the_reply_and_counts_exactly() -> None:
    slots = Slots(LocalServer(seconds_per_1k=2))
    first = slots.look(LONG, "", 0)
    first.keep("the reply")
    second = slots.look(LONG + "the reply" + "and then?", "", 0)
    assert second.cached == tokens(len(LONG + "the reply"))
    new = second.total - second.cached
    assert second.report(5) == {"prompt_n": new, "cache_n": second.cached, "prompt_ms": 2 * new, "predicted_n": 5}


def test_one_changed_character_at_the_front_loses_everything() -> None:
    slots = Slots(LocalServer())
    slots.look(LONG, "", 0).keep("")
    assert slots.look("!" + LONG, "", 0).cached == 0


def test_fully_cached_prompt_has_its_last_token_evaluated() -> None:
    slots = Slots(LocalServer())
    slots.look(LONG, "", 0).keep("")
    again = slots.look(LONG, "", 0)
    assert again.total - again.cached == 1


@pytest.mark.parametrize(("count", "kept"), [(1, False), (2, True)])
def test_side_call_evicts_the_work_from_the_only_slot(count: int, kept: bool) -> None:
    slots = Slots(LocalServer(count))
    slots.look(LONG, "", 0).keep("")
    slots.look("Give this a title.", "", 1).keep("A title")
    assert (slots.look(LONG + "next", "", 2).cached > 0) is kept


def test_least_recently_used_slot_is_taken() -> None:
    slots = Slots(LocalServer(2))
    for word in ("a", "b", "a", "c"):
        slots.look(word * 1000, "", 0).keep("")
    assert slots.look("a" * 1000, "", 0).cached > 0
    assert slots.look("b" * 1000, "", 0).cached == 0
