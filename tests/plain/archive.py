"""A log in memory as an archive."""

import attrs

from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.session.directory import Directory
from mnemosyne.domain.session.events import Event
from tests.plain.directory import PlainDirectory
from tests.plain.log import PlainLog


@attrs.frozen
class MemoryArchive:
    """See services.sessions.Archive."""

    log: PlainLog

    @property
    def events(self) -> EventLog[Event]:
        return self.log

    @property
    def contents(self) -> ContentStore:
        return self.log

    @property
    def journal(self) -> Journal:
        return self.log

    @property
    def directory(self) -> Directory:
        return PlainDirectory(self.log)
