"""Which reply of the script a request gets, whatever its dialect."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

import attrs

from mnemosyne_lab.provider.defaults import default_reply
from mnemosyne_lab.provider.reading import Body, Json, header
from mnemosyne_lab.provider.script import Script, ScriptedReply, ScriptRule, When
from mnemosyne_lab.provider.view import RequestView

Model = Callable[[Body], ScriptedReply]
"""What answers a request with tools that fits no rule of the script: it knows that request's body and nothing else."""


class ReplyChooser:
    """A script at work: it counts the requests and how often each rule has fitted."""

    def __init__(self, script: Script, model: Model | None) -> None:
        self.script = script
        self._model = model
        self._requests = 0
        self._fits: dict[int, int] = {}
        """How many requests each rule has fitted, by its number."""

    def change_script(self, script: Script) -> None:
        """Go on with another one, whose rules fitted nothing yet."""
        self.script = script
        self._fits.clear()

    def count_request(self) -> int:
        """The number of a request for a message, from 1."""
        self._requests += 1
        return self._requests

    def choose(self, view: RequestView, body: Body) -> tuple[str, ScriptedReply]:
        """The rule's name and its reply; the name is empty for a default."""
        rounds = view.rounds
        for number, rule in enumerate(self.script.rules):
            reply = rule.reply_for(rounds)
            if reply is not None and not rule.counting and self._fires(number, rule, view):
                return _label(number, rule), _fill_in(reply, view.text)
        if self._model is not None and view.tools:
            return "model", _fill_in(self._model(body), view.text)
        return "", default_reply(self.script, view)

    def choose_for_counting(self, view: RequestView) -> tuple[str, ScriptedReply] | None:
        """The failure or literal response that a rule has for count_tokens, or nothing."""
        for number, rule in enumerate(self.script.rules):
            if rule.counting and self._fires(number, rule, view):
                reply = rule.reply_for(0)
                if reply is not None and (reply.failure or reply.raw):
                    return _label(number, rule), reply
        return None

    def _fires(self, number: int, rule: ScriptRule, view: RequestView) -> bool:
        if not _fits(rule.when, view, self._requests):
            return False
        before = self._fits.get(number, 0)
        self._fits[number] = before + 1
        return before >= rule.skip and (rule.times is None or before < rule.skip + rule.times)


def _fill_in(reply: ScriptedReply, text: str) -> ScriptedReply:
    """The reply with what its tool inputs look for in the request."""
    content = [
        {**block, "input": find_in(block.get("input", {}), text)} if block.get("type") == "tool_use" else block
        for block in reply.content
    ]
    return attrs.evolve(reply, content=content)


def _label(number: int, rule: ScriptRule) -> str:
    return rule.name or f"rules[{number}]"


def _fits(when: When, view: RequestView, request: int) -> bool:
    """Whether all given conditions hold; `request` is the number of this message request."""
    checks: tuple[tuple[object, Callable[[], bool]], ...] = (
        (when.lane, lambda: view.lane == when.lane),
        (when.prompt, lambda: str(when.prompt) in view.prompt),
        (when.last, lambda: str(when.last) in view.last),
        (when.system, lambda: str(when.system) in view.system),
        (when.tools, lambda: bool(view.tools) == when.tools),
        (when.tool, lambda: when.tool in view.tools),
        (when.model, lambda: fnmatchcase(view.model, str(when.model))),
        (when.after_tools, lambda: view.is_after_tools == when.after_tools),
        (when.rounds, lambda: view.rounds == when.rounds),
        (when.request, lambda: request == when.request),
        (when.agent, lambda: header(view.headers, "x-claude-code-agent-id") == when.agent),
        (when.stream, lambda: view.stream == when.stream),
    )
    return all(holds() for wanted, holds in checks if wanted is not None)


def find_in(value: Json, text: str) -> Json:
    """The value with each `{"$find": "regex"}` replaced by the expression's last match in the text."""
    if isinstance(value, list):
        return [find_in(entry, text) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"$find"}:
        return {key: find_in(entry, text) for key, entry in value.items()}
    found = list(re.finditer(str(value["$find"]), text))
    if not found:
        return ""
    return found[-1].group(1) if found[-1].groups() else found[-1].group(0)
