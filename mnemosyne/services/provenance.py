"""Where in the log something was said that comes from outside: by an agent's tool, or by a program."""

from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.errors import BadOption, NotFound
from mnemosyne.services import sessions
from mnemosyne.services.sessions import Archive


async def find_provenance(archive: Archive, session: str | None, turn: int | None = None) -> Provenance | None:
    """The turn of a session that was named, by default the last one; None where none was named. Raises NotFound, and
    BadOption for a turn of no session.
    """
    if session is None:
        if turn is not None:
            raise BadOption(f"turn: say of which `session` it is turn {turn}.")
        return None
    stream, history = await sessions.read_history(archive, session)
    if not history.attempts:
        raise NotFound(f"Session {stream} has no turns.")
    last = history.attempts[-1].began
    if turn is None:
        return Provenance(session=stream, branch=last.branch, turn=last.turn)
    return Provenance(session=stream, branch=last.branch, turn=history.turn(last.branch, turn)[-1].began.turn)
