"""The conversations of these tests are small, and are managed from their first request on."""

import pytest


@pytest.fixture(autouse=True)
def manage_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMOSYNE_MANAGE_SMALL", "true")
