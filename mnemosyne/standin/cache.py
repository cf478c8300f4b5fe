"""The provider's prompt cache: what a request reads, writes and pays in full.

The rules, from the Messages API documentation on prompt caching:

* the prompt is tools, then system, then messages; an entry is a hash of everything up to a marked block;
* a marked block writes an entry when the prompt up to it reaches the model's smallest size;
* a lookup starts at each marked block and walks back at most 20 positions, where a run of `tool_use` blocks or of
  `tool_result` blocks is one position; the longest hit wins;
* an entry lives 5 minutes or 1 hour from the *start* of the request that wrote or last read it, and can be read once
  its writer's reply has begun;
* model, tools, thinking and effort key everything; `speed` keys system and messages; `tool_choice` and the presence of
  images key the messages.

Pure but for the entries it keeps; time is an argument, in seconds on any monotonic clock. Token counts are estimates.
"""

import hashlib
from collections.abc import Iterator

import attrs
import orjson

from mnemosyne.standin import models
from mnemosyne.standin.reading import Body, Json, as_dict, blocks, placed, tokens, tools
from mnemosyne.standin.rules_features import BILLING

SECONDS = {"5m": 300.0, "1h": 3600.0}
LOOKBACK = 20
"""Positions, the marked block's own included."""
_NEVER_MARKED = {"thinking", "redacted_thinking"}


@attrs.frozen
class CacheUse:
    """The input side of a reply's `usage`, in tokens. Their sum is the size of the prompt."""

    read: int
    write_5m: int
    write_1h: int
    uncached: int

    @property
    def total(self) -> int:
        """The size of the whole prompt."""
        return self.read + self.write_5m + self.write_1h + self.uncached


@attrs.frozen
class Step:
    """The prompt up to and including one block."""

    digest: bytes
    tokens: int
    position: int
    """Counts runs of tool blocks once."""
    ttl: str | None
    """`5m` or `1h` when the block is marked."""


def _serial(value: Json) -> bytes:
    """In the order the client wrote it: another key order is another prompt."""
    return orjson.dumps(value)


def _bare(block: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _ttl(control: Json) -> str | None:
    return str(control.get("ttl") or "5m") if isinstance(control, dict) else None


def _holds_image(value: Json) -> bool:
    return any(
        block.get("type") == "image" or (isinstance(block.get("content"), list) and _holds_image(block["content"]))
        for block in blocks(value)
    )


def steps(body: Body) -> list[Step]:
    """The prompt block by block, with the automatic marker (the top-level `cache_control`) put on its block."""
    effort = as_dict(body.get("output_config")).get("effort")
    image = any(_holds_image([item.block]) for item in placed(body))
    keys = {
        "tools": [body.get("model"), body.get("thinking"), effort],
        "system": [body.get("speed")],
        "messages": [body.get("tool_choice"), image],
    }
    running = hashlib.sha256()
    found: list[Step] = []
    characters, position, before, tier = 0, -1, "", ""
    for section, kind, role, block in _prompt(body):
        if section != tier:
            for passed in _tiers_between(tier, section):
                running.update(_serial([passed, keys[passed]]))
            tier = section
        serial = _serial([role, _bare(block)])
        running.update(hashlib.sha256(serial).digest())
        characters += len(serial.decode(errors="replace"))
        if kind not in {"tool_use", "tool_result"} or kind != before:
            position += 1
        before = kind
        found.append(Step(running.digest(), max(1, tokens(characters)), position, _ttl(block.get("cache_control"))))
    return _with_automatic_marker(body, found)


def _tiers_between(left: str, entered: str) -> list[str]:
    order = ["tools", "system", "messages"]
    return order[order.index(left) + 1 if left else 0 : order.index(entered) + 1]


def _prompt(body: Body) -> Iterator[tuple[str, str, str, dict[str, Json]]]:
    """(section, block type, role, block) for every block of the prompt."""
    for tool in tools(body):
        yield "tools", "tool", "", tool
    for number, entry in enumerate(blocks(body.get("system"))):
        if number or not str(entry.get("text", "")).startswith(BILLING):
            yield "system", "system", "", entry
    for item in placed(body):
        yield "messages", item.type, item.role, item.block


def _with_automatic_marker(body: Body, found: list[Step]) -> list[Step]:
    control = body.get("cache_control")
    if not isinstance(control, dict):
        return found
    kinds = [(kind, block) for _, kind, _, block in _prompt(body)]
    for number in range(len(found) - 1, -1, -1):
        kind, block = kinds[number]
        if kind not in _NEVER_MARKED and (kind != "text" or str(block.get("text", "")).strip()):
            found[number] = attrs.evolve(found[number], ttl=_ttl(control))
            break
    return found


@attrs.define
class _Entry:
    ttl: str
    expires: float
    readable: bool


@attrs.frozen
class Lookup:
    """A request's dealings with the cache; give it back to `began` when its reply begins."""

    use: CacheUse
    written: tuple[bytes, ...]


class PromptCache:
    """The entries of one workspace."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}

    def request(self, body: Body, now: float) -> Lookup:
        """What a request that starts now reads and writes. What it writes can be read after `began`."""
        prompt = steps(body)
        total = prompt[-1].tokens if prompt else 0
        smallest = models.find(str(body.get("model", ""))).cache_minimum
        marked = [number for number, step in enumerate(prompt) if step.ttl and step.tokens >= smallest]
        hit = self._longest_hit(prompt, marked, now)
        read = prompt[hit].tokens if hit >= 0 else 0
        for number in {hit, *marked}:
            # The marked blocks inside the hit are read with it, so they live on with it.
            entry = self._entries.get(prompt[number].digest) if 0 <= number <= hit else None
            if entry is not None and entry.readable and now < entry.expires:
                entry.expires = now + SECONDS[entry.ttl]
        beyond = [number for number in marked if number > hit]
        for number in beyond:
            self._write(prompt[number], now)
        last = prompt[beyond[-1]].tokens if beyond else read
        long = max((prompt[number].tokens for number in beyond if prompt[number].ttl == "1h"), default=read)
        use = CacheUse(read=read, write_1h=long - read, write_5m=last - long, uncached=total - last)
        return Lookup(use, tuple(prompt[number].digest for number in beyond))

    def began(self, lookup: Lookup) -> None:
        """The reply to that request has begun: what it wrote can be read from now on."""
        for digest in lookup.written:
            self._entries[digest].readable = True

    def _longest_hit(self, prompt: list[Step], marked: list[int], now: float) -> int:
        for number in reversed(marked):
            for back in range(number, -1, -1):
                if prompt[number].position - prompt[back].position >= LOOKBACK:
                    break
                entry = self._entries.get(prompt[back].digest)
                if entry is not None and entry.readable and now < entry.expires:
                    return back
        return -1

    def _write(self, step: Step, now: float) -> None:
        ttl = step.ttl if step.ttl in SECONDS else "5m"
        old = self._entries.get(step.digest)
        alive = old is not None and old.readable and now < old.expires
        self._entries[step.digest] = _Entry(ttl or "5m", now + SECONDS[ttl or "5m"], alive)
