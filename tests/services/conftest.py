"""Fixtures of the services' tests."""

import pytest

from tests.services.talking import Plain, plain


@pytest.fixture
def archive() -> Plain:
    return plain()
