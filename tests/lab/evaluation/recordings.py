"""Sessions as a recorder would have written them: a story of calls, and its JSON."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st

from mnemosyne.domain.cost.prompt import Ttl
from mnemosyne_lab.evaluation.policy import MODEL, Settings, api
from mnemosyne_lab.evaluation.reading import recording
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Trace, trace_of

Json = dict[str, Any]
Step = tuple[str, int, int]
"""The agent's action, the file's number, and the seconds since the previous step."""

LINES = 60


def line_of(file: int, number: int) -> str:
    """A line that no other file has."""
    return f"    value_{file}_{number} = compute_part({number * 37 + file}, 'file {file}')"


def body_of(file: int) -> str:
    return "\n".join(line_of(file, number) for number in range(LINES))


def session(steps: Sequence[Step], name: str = "made", *, resets: Sequence[Json] = ()) -> Json:
    """A session with a request for each step. ``read``, ``run`` and ``edit`` are calls; ``say`` ends an exchange."""
    messages: list[Json] = [{"role": "user", "content": "Please mend the parser."}]
    turns: list[Json] = []
    at = 1_700_000_000
    for number, (what, file, seconds) in enumerate(steps):
        at += seconds
        turns.append({"msg": len(messages), "ts": _stamp(at), "usage": None})
        messages += _exchange(what, file, f"toolu_{number}", number)
    return {"name": name, "model": MODEL, "messages": messages, "turns": turns, "resets": list(resets)}


def _stamp(seconds: int) -> str:
    minutes, second = divmod(seconds - 1_700_000_000, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"2026-01-{day + 1:02}T{hour:02}:{minute:02}:{second:02}Z"


def _exchange(what: str, file: int, identity: str, number: int) -> list[Json]:
    path = f"/src/part_{file}.py"
    if what == "say":
        said = [{"type": "text", "text": f"Done with step {number}."}]
        return [{"role": "assistant", "content": said}, {"role": "user", "content": f"Go on with part {file}."}]
    if what == "read":
        call, text = ("Read", {"file_path": path}), "\n".join(f"{n + 1:6}→{line_of(file, n)}" for n in range(LINES))
    elif what == "run":
        call, text = ("Bash", {"command": f"grep -rn value_{file} src"}), body_of(file)[:2_000]
    else:
        call = ("Edit", {"file_path": path, "old_string": line_of(file, number % LINES), "new_string": "    pass"})
        text = "The file was updated."
    used = {"type": "tool_use", "id": identity, "name": call[0], "input": call[1]}
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln" * 90}
    result = {"type": "tool_result", "tool_use_id": identity, "content": text}
    return [{"role": "assistant", "content": [thought, used]}, {"role": "user", "content": [result]}]


STEPS = st.lists(
    st.tuples(st.sampled_from(("read", "run", "edit", "say")), st.integers(0, 3), st.sampled_from((5, 40, 400))),
    min_size=1,
    max_size=40,
)
"""Stories with cold moments in them."""


def traced(steps: Sequence[Step], *, resets: Sequence[Json] = ()) -> Trace:
    return trace_of(recording("made, line 1", session(steps, resets=resets)))


def sized(trace: Trace, *, ttl: Ttl = "5m", fixed: int = 20_000) -> Sized:
    """A trace measured for the usual model."""
    return Sized(trace, Settings(tariff=api(ttl), fixed=fixed))


LONG: Sequence[Step] = [
    *(("read", file, 5) for file in range(4)),
    *(("run", 4 + number % 4, 5) for number in range(30)),
    ("say", 0, 400),
    *(("edit", number % 4, 5) for number in range(4)),
]
"""Reads, a long stretch of other work, a cold moment, and then edits of the files read first."""


@cache
def long_trace() -> Trace:
    """The trace of ``LONG``, read once."""
    return traced(LONG)
