"""What the stand-in answers when no rule of its script fits: something that lets any client go on or stop."""

import orjson

from mnemosyne.lab.provider.reading import Body, Headers, Json, as_dict, lane, prompt
from mnemosyne.lab.provider.script import Script, ScriptedReply

_UNFIT = "The stand-in provider has nothing to add: no rule of its script fits this request."


def default_reply(script: Script, body: Body, headers: Headers) -> ScriptedReply:
    """A JSON document where a schema is asked for, a summary where one is, a short text otherwise."""
    if body.get("max_tokens") == 0:
        return ScriptedReply(stop_reason="max_tokens")  # a request that only warms the cache
    schema = as_dict(as_dict(body.get("output_config")).get("format")).get("schema")
    if isinstance(schema, dict):
        return ScriptedReply(text=orjson.dumps(sample(schema)).decode())
    if "<summary>" in prompt(body):
        return ScriptedReply(text="<summary>\nThe work so far, in one sentence by the stand-in.\n</summary>")
    if lane(body, headers) == "side":
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
