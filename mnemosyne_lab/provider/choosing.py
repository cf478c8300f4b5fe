"""Which reply of the script a request gets, whatever its dialect."""

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase

import orjson

from mnemosyne_lab.provider.reading import Body, Json, as_dict, header
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
        self._fits = Counter[int]()
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
                return _label(number, rule), reply
        if self._model is not None and view.tools:
            return "model", self._model(body)
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
        self._fits[number] += 1
        return rule.times is None or self._fits[number] <= rule.times


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


_UNFIT = "The stand-in provider has nothing to add: no rule of its script fits this request."


def default_reply(script: Script, view: RequestView) -> ScriptedReply:
    """A JSON document where a schema is asked for, a summary where one is, a short text otherwise."""
    if view.only_warms:
        return ScriptedReply(stop_reason="max_tokens")
    if view.compacts:
        return ScriptedReply(content=[{"type": "compaction", "text": "The work so far, by the stand-in."}])
    if isinstance(view.schema, dict):
        return ScriptedReply(text=orjson.dumps(sample(view.schema)).decode())
    if "<summary>" in view.prompt:
        return ScriptedReply(text="<summary>\nThe work so far, in one sentence by the stand-in.\n</summary>")
    if view.lane == "side":
        return ScriptedReply(text="Stand-in conversation")
    return script.default or ScriptedReply(text=_UNFIT)


def sample(schema: dict[str, Json]) -> Json:
    """A small value that fits a simple JSON schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: sample(as_dict(part)) for name, part in as_dict(schema.get("properties")).items()}
        case "array":
            return []
        case "integer" | "number":
            return 0
        case "boolean":
            return False
        case "null":
            return None
    return "Stand-in conversation"
