"""Fixtures of the actors' tests."""

import pytest

from tests.actors.support import StoppableLog


@pytest.fixture
def log() -> StoppableLog:
    return StoppableLog()
