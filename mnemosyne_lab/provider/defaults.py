"""The reply if no rule of the script matches: any client can continue or stop."""

import orjson

from mnemosyne_lab.provider.reading import Json, as_dict
from mnemosyne_lab.provider.script import Script, ScriptedReply
from mnemosyne_lab.provider.view import RequestView

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
