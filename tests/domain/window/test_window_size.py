"""Target size of a prompt."""

from mnemosyne.domain.window.window_size import choose_window, find_model_window

SMALL, MILLION = "claude-haiku-4-5", "claude-opus-5-5"


def test_default_window_is_the_size_at_which_clients_compacted() -> None:
    assert choose_window(None, MILLION) == choose_window(None, SMALL) == 160_000


def test_configured_window_is_limited_by_the_model() -> None:
    assert [choose_window(wanted, MILLION) for wanted in (45_000, 160_000, 400_000)] == [45_000, 160_000, 400_000]
    assert choose_window(400_000, SMALL) == 200_000


def test_model_window_is_the_smaller_of_stated_and_table() -> None:
    assert [find_model_window(SMALL, stated) for stated in (None, 32_000, 1_000_000)] == [200_000, 32_000, 200_000]
    assert choose_window(None, SMALL, 32_000) == choose_window(45_000, SMALL, 32_000) == 32_000
