"""Long conversations on one topic after another."""

from typing import Any

from tests.replay.recordings import session

TURNS = 25
"""Rounds of tool calls on each topic; one more turn ends it."""


def on_topics(*topics: str) -> dict[str, Any]:
    """A recorded session in which the user begins each topic, and files about it are read."""
    messages: list[dict[str, Any]] = []
    for part, name in enumerate(topics):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"Now look at {name}_helper()."}]})
        for number in range(TURNS):
            identity = f"t{part}-{number}"
            path = f"/src/{name}/{name}_{part}_{number}.py"
            call = {"type": "tool_use", "id": identity, "name": "Read", "input": {"file_path": path}}
            result = {"type": "tool_result", "tool_use_id": identity, "content": _about(name, number)}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Done with {name}."}]})
    answers = [index for index, each in enumerate(messages) if each["role"] == "assistant"]
    turns = [{"msg": index, "ts": None, "usage": None} for index in answers]
    return {**session(), "messages": messages, "turns": turns}


def _about(name: str, number: int) -> str:
    return f"{name}_node_{number % 5} in /src/{name}/{name}_{number % 3}.py calls {name}_helper and {name}_table. " * 20
