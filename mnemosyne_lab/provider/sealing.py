"""Sealed reasoning: a signature over the reasoning's text and the name of the next item.

`encrypted_content` is signed here instead of encrypted, so that any change shows. Pure: the secret is an argument.
"""

import base64
import hashlib
import hmac

from mnemosyne_lab.provider.reading import Json

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
