"""Databases that commands read. Tests that do not change the log share one; the others fill their own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.logs import GOLDEN, MANAGED, OBSERVED_LOG, put_events, put_golden, put_readings
from tests.fixtures import LentDatabases, UseLog
from tests.golden.sessions import stored


@contextmanager
def _filled(databases: LentDatabases, fill: Callable[..., None], *content: Any) -> Iterator[str]:
    with databases.lend() as dsn:
        fill(dsn, *content)
        yield dsn


@pytest.fixture(scope="session")
def golden_dsn(databases: LentDatabases) -> Iterator[str]:
    with _filled(databases, put_golden, GOLDEN) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def observed_dsn(databases: LentDatabases) -> Iterator[str]:
    with _filled(databases, put_golden, OBSERVED_LOG) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def managed_dsn(databases: LentDatabases) -> Iterator[str]:
    with _filled(databases, put_events, MANAGED) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def readings_dsn(databases: LentDatabases) -> Iterator[str]:
    with _filled(databases, put_readings) as dsn:
        yield dsn


@pytest.fixture
def golden(golden_dsn: str, use_log: UseLog) -> None:
    """A shared database with the golden session."""
    use_log(golden_dsn)


@pytest.fixture
def conversation(observed_dsn: str, use_log: UseLog) -> str:
    """A shared database with a session whose content is kept; its id."""
    use_log(observed_dsn, "t")
    return str(stored(OBSERVED_LOG)[0].stream)


@pytest.fixture
def own_conversation(dsn: str, use_log: UseLog) -> str:
    """The same in a database of the test's own."""
    put_golden(dsn, OBSERVED_LOG)
    use_log(dsn, "t")
    return str(stored(OBSERVED_LOG)[0].stream)


@pytest.fixture
def managed(managed_dsn: str, use_log: UseLog) -> None:
    """A shared database with a managed session."""
    use_log(managed_dsn)


@pytest.fixture
def recorded(dsn: str, use_log: UseLog) -> Callable[[Sequence[Any]], None]:
    """Fills a database of the test's own with the events of one session."""
    use_log(dsn)
    return lambda events: put_events(dsn, events)


@pytest.fixture
def read_files(readings_dsn: str, use_log: UseLog) -> None:
    """A shared database with two sessions that read files."""
    use_log(readings_dsn)


@pytest.fixture
def own_readings(dsn: str, use_log: UseLog) -> str:
    """The same in a database of the test's own; its DSN."""
    put_readings(dsn)
    use_log(dsn)
    return dsn
