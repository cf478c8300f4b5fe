"""How large a prompt should be."""

from mnemosyne.domain.window.window_size import choose_window, find_model_window

SMALL, MILLION = "claude-haiku-4-5", "claude-opus-5-5"


def test_where_nobody_wants_a_window_a_prompt_should_hold_what_clients_compacted_at() -> None:
    assert choose_window(None, MILLION) == choose_window(None, SMALL) == 160_000


def test_a_window_that_somebody_wants_is_kept_as_far_as_the_model_takes_it() -> None:
    assert [choose_window(wanted, MILLION) for wanted in (45_000, 160_000, 400_000)] == [45_000, 160_000, 400_000]
    assert choose_window(400_000, SMALL) == 200_000


def test_a_model_takes_no_more_than_its_provider_stated_and_no_more_than_the_table_says() -> None:
    assert [find_model_window(SMALL, stated) for stated in (None, 32_000, 1_000_000)] == [200_000, 32_000, 200_000]
    assert choose_window(None, SMALL, 32_000) == choose_window(45_000, SMALL, 32_000) == 32_000
