"""The vendor's library through the proxy to a real local server: a strict chat template, log probabilities, a small
window.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from campaigns.clients.local_server import Json, LocalServer, find_python, local_server, make_model, run_agent
from campaigns.clients.long_work import recorded
from mnemosyne.domain.objects.events import ObjectDegraded, ObjectRestored
from mnemosyne.domain.session.round_events import EpochBegan, RoundBegan
from tests.clients.provider import standin_in_a_thread
from tests.clients.record import conversations
from tests.clients.workspace import MNEMOSYNE, bare_environment, finished, serving

pytestmark = pytest.mark.clients

CONTEXT, WINDOW = 4096, 3000
"""Tokens: what the server holds, and what of it a managed conversation may take."""

TURNS = "6"


def name_calls(replies: Sequence[Json]) -> set[str]:
    """The names of the calls that the client received. A model of random weights may produce any word of the memory
    texts.
    """
    calls = [call for each in replies for call in each["choices"][0]["message"].get("tool_calls") or ()]
    return {each["function"]["name"] for each in calls}


@pytest.fixture(scope="module")
def python() -> Path:
    return find_python()


@pytest.fixture(scope="module")
def local(python: Path) -> Iterator[LocalServer]:
    with (
        tempfile.TemporaryDirectory(prefix="mnemosyne-model-") as folder,
        local_server(python, make_model(python, Path(folder)), CONTEXT) as local,
    ):
        yield local


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mnemosyne-clients-") as folder:
        yield Path(folder) / "data"


@pytest.mark.parametrize("how", ["streamed", "whole"])
def test_observed_conversation_equals_a_direct_one_with_log_probabilities(
    how: str, python: Path, local: LocalServer, data_dir: Path
) -> None:
    alone = run_agent(python, local.url, how, "2")
    with standin_in_a_thread() as standin, serving(standin, *local.options, data_dir=data_dir) as server:
        through_us = run_agent(python, server.url, how, "2")
        [found] = conversations(data_dir, since=0)
    said = [[each["choices"][0]["message"].get("content") for each in run] for run in (alone, through_us)]
    assert said[0] == said[1]
    likelihoods = [each["choices"][0]["logprobs"]["content"] for each in through_us]
    assert all(likelihoods)
    assert [turn.reply["choices"][0]["logprobs"]["content"] for turn in found.turns] == likelihoods


@pytest.mark.parametrize("how", ["streamed", "whole"])
def test_managed_conversation_continues_beyond_the_servers_window(
    how: str, python: Path, local: LocalServer, data_dir: Path, tmp_path: Path
) -> None:
    """Every third turn the model uses the memory until it is stopped, so that a reply ends with a hidden result."""
    assert "error" in run_agent(python, local.url, how, TURNS)[-1]
    settings = (*local.options, "--manage", "--manage-window", str(WINDOW))
    with standin_in_a_thread() as standin, serving(standin, *settings, data_dir=data_dir) as server:
        replies = run_agent(python, server.url, how, TURNS, "--memory", "memory_query")
        assert [each for each in replies if "error" in each] == []
        events = recorded(data_dir)
        finished([*MNEMOSYNE, "verify", "--data-dir", str(data_dir)], bare_environment(tmp_path), tmp_path)
    assert len(replies) == 2 * int(TURNS)
    assert name_calls(replies) == {"look"}
    assert len([each for each in events if isinstance(each, EpochBegan)]) >= 2


LONG_CONTEXT, LONG_WINDOW = 8192, 6000
"""With room for what left to come back whole."""

FIRST, SECOND = 18, 12
"""Turns of two rounds each, before our server and the local one are started anew, and behind that."""


@pytest.mark.soak
@pytest.mark.parametrize("how", ["streamed", "whole"])
def test_sixty_rounds_with_a_restart_and_a_hidden_restore_are_one_conversation(
    how: str, python: Path, data_dir: Path, tmp_path: Path
) -> None:
    """The local server's second model begins with the id of the first evicted object where it may."""
    settings = ("--manage", "--manage-window", str(LONG_WINDOW))
    kept = ("--memory", "memory_query", "--folder", str(tmp_path))
    with standin_in_a_thread() as standin:
        model = make_model(python, tmp_path)
        with (
            local_server(python, model, LONG_CONTEXT) as local,
            serving(standin, *local.options, *settings, data_dir=data_dir) as server,
        ):
            replies = run_agent(python, server.url, how, str(FIRST), *kept)
            [gone, *_] = [each.object for each in recorded(data_dir) if isinstance(each, ObjectDegraded)]
        model = make_model(python, tmp_path, f'{{"object_id":"{gone}",')
        with (
            local_server(python, model, LONG_CONTEXT) as local,
            serving(standin, *local.options, *settings, data_dir=data_dir) as server,
        ):
            replies += run_agent(python, server.url, how, str(SECOND), *kept, "--restore")
            events = recorded(data_dir)
            finished([*MNEMOSYNE, "verify", "--data-dir", str(data_dir)], bare_environment(tmp_path), tmp_path)
    assert [each for each in replies if "error" in each] == []
    assert len(replies) == 2 * (FIRST + SECOND)
    assert name_calls(replies) == {"look"}
    assert [each.object for each in events if isinstance(each, ObjectRestored)] == [gone]
    assert len([each for each in events if isinstance(each, EpochBegan)]) >= 2
    assert len([each for each in events if isinstance(each, RoundBegan)]) > len(replies)
    looked = (tmp_path / "looked.txt").read_text().splitlines()
    assert looked == [f"{turn} look" for turn in range(1, FIRST + SECOND + 1)]
