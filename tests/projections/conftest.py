"""A world of each kind for the tests of projections."""

from collections.abc import AsyncIterator

import pytest

from tests.projections.support import KINDS, PLAIN, World, open_world


@pytest.fixture(params=KINDS)
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A log and a store of each kind."""
    dsn = "" if request.param == PLAIN else request.getfixturevalue("dsn")
    async with open_world(request.param, dsn) as world:
        yield world
