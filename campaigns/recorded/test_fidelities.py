"""The steps of recorded sessions that a server manages in graded mode."""

import json
from collections import Counter

import attrs
import pytest
import trio

from mnemosyne.app.storage import event_codec
from mnemosyne.domain.objects.events import ObjectDegraded
from mnemosyne.domain.objects.fidelity import Fidelity, FidelityMode
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.window.rounds import SETTINGS
from tests.domain.recorded import folder
from tests.plain.log import PlainLog
from tests.replay.playing import RecordedClock, play
from tests.replay.session_tapes import tape_of

GRADED = attrs.evolve(SETTINGS, fidelity=FidelityMode.GRADED)


@pytest.mark.soak
def test_two_fifths_of_the_steps_in_graded_mode_end_at_a_short_form() -> None:
    """35 sessions of four developers, played in six minutes."""
    steps: Counter[Fidelity] = Counter()
    for line in (folder("sessions") / "others" / "claude_code.jsonl").read_bytes().splitlines():
        session = json.loads(line)
        # The recorded usage belongs to the client's own requests.
        tape = tape_of({**session, "turns": [{**turn, "usage": None} for turn in session["turns"]]})
        clock = RecordedClock()
        log = PlainLog(event_codec())
        trio.run(play, log, tape, clock, Mode.MANAGE, GRADED, clock=clock)
        for stream in trio.run(log.streams):
            events = [each.envelope.event for each in trio.run(log.read, stream)]
            steps.update(event.after for event in events if isinstance(event, ObjectDegraded))
    short = steps[Fidelity.DETAILED] + steps[Fidelity.COMPACT]
    assert short >= 0.4 * steps.total(), steps
