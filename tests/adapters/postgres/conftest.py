"""The log of each kind, for the contracts that all of them keep."""

from collections.abc import AsyncIterator

import pytest

from tests.adapters.log_support import INLINE, POSTGRES, World, open_world


@pytest.fixture(params=[INLINE, POSTGRES])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """An empty log."""
    dsn = str(request.getfixturevalue("dsn")) if request.param == POSTGRES else ""
    async with open_world(request.param, dsn) as world:
        yield world
