"""The items of a Responses body, and their seals. The secret is an argument."""

import base64
import hashlib
import hmac
from collections.abc import Iterator

from mnemosyne_lab.provider.reading import Body, Json, as_list, tools


def list_items(body: Body) -> list[dict[str, Json]]:
    """The input items that are objects, in order; a text is one user message."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [item for item in as_list(given) if isinstance(item, dict)]


def list_tools(body: Body) -> Iterator[dict[str, Json]]:
    """Every tool of the body and of its `additional_tools` items; one of a namespace says which in `namespace`."""
    offered = list(tools(body))
    for item in list_items(body):
        if item_type(item) == "additional_tools":
            offered += tools(item)
    for tool in offered:
        if tool.get("type") == "namespace":
            yield from ({**inner, "namespace": tool.get("name")} for inner in tools(tool))
        else:
            yield tool


def item_type(item: dict[str, Json]) -> str:
    """The type of an item; a message may leave it out."""
    return str(item.get("type", "message" if "role" in item else ""))


# Sealed reasoning: `encrypted_content` is a signature over the text and the next item's name, so that any change shows

_SIZE = 16


def name_item(item: dict[str, Json]) -> str:
    """The identity of an item, however a client echoes it: its type and, for a call, its id."""
    return f"{item.get('type')} {item.get('call_id', '')}".strip()


def seal(secret: bytes, following: str, text: str) -> str:
    """The seal of a text before the item of that name."""
    held = f"{following}\n{text}".encode()
    return base64.urlsafe_b64encode(_sign(secret, held) + held).decode()


def open_seal(secret: bytes, sealed: str) -> tuple[str, str]:
    """The name of the item that followed, and the text. Raises ValueError when the seal is not ours as we made it."""
    held = base64.b64decode(sealed, altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(held).decode() != sealed:
        raise ValueError("the seal is written in another way than ours")
    if not hmac.compare_digest(held[:_SIZE], _sign(secret, held[_SIZE:])):
        raise ValueError("the seal does not fit")
    following, _, text = held[_SIZE:].decode().partition("\n")
    return following, text


def _sign(secret: bytes, held: bytes) -> bytes:
    return hmac.new(secret, held, hashlib.sha256).digest()[:_SIZE]
