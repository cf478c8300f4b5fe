"""The vendor's library through us to a real local server: a strict chat template, likelihoods, a small window."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemosyne.domain.session.round_events import EpochBegan
from mnemosyne.domain.tools.memory_tools import NAMES
from tests.clients.desk import MNEMOSYNE, bare_environment, finished, serving
from tests.clients.local_server import LocalServer, find_python, local_server, make_model, run_agent
from tests.clients.long_work import recorded
from tests.clients.provider import standin_in_a_thread
from tests.clients.record import conversations

pytestmark = pytest.mark.clients

CONTEXT, WINDOW = 4096, 3000
"""Tokens: what the server holds, and what of it a managed conversation may take."""

TURNS = "6"


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
def test_an_observed_conversation_and_its_likelihoods_are_what_they_are_without_us(
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
def test_a_managed_conversation_goes_on_where_the_servers_window_would_have_been_full(
    how: str, python: Path, local: LocalServer, data_dir: Path, tmp_path: Path
) -> None:
    """Every third turn the model asks memory until it is stopped, so that a reply ends with what a hidden call got."""
    assert "error" in run_agent(python, local.url, how, TURNS)[-1]
    settings = (*local.options, "--manage", "--manage-window", str(WINDOW))
    with standin_in_a_thread() as standin, serving(standin, *settings, data_dir=data_dir) as server:
        replies = run_agent(python, server.url, how, TURNS, "memory_query")
        assert [each for each in replies if "error" in each] == []
        events = recorded(data_dir)
        finished([*MNEMOSYNE, "verify", "--data-dir", str(data_dir)], bare_environment(tmp_path), tmp_path)
    assert len(replies) == 2 * int(TURNS)
    assert not [name for name in NAMES if name in str(replies)]
    assert len([each for each in events if isinstance(each, EpochBegan)]) >= 2
