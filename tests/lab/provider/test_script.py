"""Scripts are plain data, and the error for a bad one names the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from mnemosyne.errors import BadConfiguration
from mnemosyne_lab.provider.script import Script, ScriptedReply, WireFault, from_data, load

TOML = """
window = 5000
[[rules]]
when = { lane = "main", prompt = "tests" }
[[rules.replies]]
content = [{ type = "tool_use", name = "Bash", input = { command = "ls" } }]
[[rules.replies]]
text = "Done."
faults = [{ kind = "cut", at = "message_delta" }]
transport = { framing = [1, 20], headers = [["x-a", "b"]] }
"""


def test_toml_and_json_give_the_same_script(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TOML)
    loaded = load(tmp_path / "s.toml")
    data = {
        "window": 5000,
        "rules": [
            {
                "when": {"lane": "main", "prompt": "tests"},
                "replies": [
                    {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]},
                    {
                        "text": "Done.",
                        "faults": [{"kind": "cut", "at": "message_delta"}],
                        "transport": {"framing": [1, 20], "headers": [["x-a", "b"]]},
                    },
                ],
            }
        ],
    }
    (tmp_path / "s.json").write_text(json.dumps(data))
    assert loaded == load(tmp_path / "s.json") == from_data(data)
    assert loaded.rules[0].replies[1].faults == [WireFault(kind="cut", at="message_delta")]


BAD: dict[str, tuple[Any, str]] = {
    "not an object": ([], "script: expected an object, found list"),
    "rules of another shape": ({"rules": {}}, "script.rules"),
    "a misspelt field": ({"rules": [{"reply": {"txt": "x"}}]}, "script.rules[0].reply"),
    "a number for a text": ({"rules": [{"reply": {"text": 3}}]}, "expected str, found int @ script.rules[0]"),
    "an unknown lane": ({"rules": [{"when": {"lane": "x"}, "reply": {}}]}, "script.rules[0].when.lane"),
    "an unknown fault": ({"rules": [{"reply": {"faults": [{"kind": "x"}]}}]}, "faults[0].kind"),
    "no reply": ({"rules": [{}]}, "either `reply` or `replies`"),
    "both": ({"rules": [{"reply": {}, "replies": [{}]}]}, "either `reply` or `replies`"),
    "a block without type": ({"rules": [{"reply": {"content": [{}]}}]}, "content[0] needs a `type`"),
    "a call without name": ({"rules": [{"reply": {"content": [{"type": "tool_use"}]}}]}, "needs `name`"),
    "broken framing": ({"rules": [{"reply": {"transport": {"framing": [0]}}}]}, "framing is"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_script_is_refused_with_its_place(name: str) -> None:
    data, told = BAD[name]
    with pytest.raises(BadConfiguration) as caught:
        from_data(data)
    assert told in str(caught.value)


@pytest.mark.parametrize(("name", "content"), [("s.json", "{"), ("s.toml", "= 1"), ("absent.json", None)])
def test_unreadable_file_is_named(tmp_path: Path, name: str, content: str | None) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(BadConfiguration, match=name):
        load(tmp_path / name)


def test_list_of_replies_ends_and_a_single_reply_does_not() -> None:
    loop = from_data({"rules": [{"replies": [{"text": "a"}, {"text": "b"}]}]}).rules[0]
    assert [loop.reply_for(rounds) for rounds in range(3)] == [ScriptedReply(text="a"), ScriptedReply(text="b"), None]
    always = from_data({"rules": [{"reply": {"text": "a"}}]}).rules[0]
    assert always.reply_for(99) == ScriptedReply(text="a")


def test_empty_script_is_valid() -> None:
    assert from_data({}) == Script()
