"""The script's view of a Chat Completions body."""

from collections.abc import Iterator

from mnemosyne_lab.provider.reading import Body, Headers, Json, as_dict, messages, text_in, tools
from mnemosyne_lab.provider.view import RequestView, Utterance, merge

_SYSTEM = {"system", "developer"}


def view_chat(body: Body, headers: Headers) -> RequestView:
    """The view of a Chat Completions body."""
    said = messages(body)
    return RequestView(
        model=str(body.get("model")),
        stream=body.get("stream") is True,
        headers=headers,
        system="\n".join(text_in(each.get("content")) for each in said if each.get("role") in _SYSTEM),
        said=merge(_utterances(body)),
        text="\n".join(text_in(each.get("content")) for each in said),
        tools={tool_name(tool): tool for tool in tools(body)},
        schema=as_dict(as_dict(body.get("response_format")).get("json_schema")).get("schema"),
    )


def _utterances(body: Body) -> Iterator[Utterance]:
    for message in messages(body):
        role = message.get("role")
        if role not in _SYSTEM:
            side = "assistant" if role == "assistant" else "user"
            yield Utterance(side, text_in(message.get("content")), role == "tool")


def tool_name(tool: dict[str, Json]) -> str:
    """The name of a tool's definition, which is under the tool's type."""
    kind = str(tool.get("type"))
    return str(as_dict(tool.get(kind)).get("name", kind))
