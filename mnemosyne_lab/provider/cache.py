"""The prompt cache of the stand-in: requests as they come in, billed by the rules of ``domain/cost/prompt_cache.py``.

Time is an argument, in seconds on any monotonic clock. Token counts are estimates.
"""

import attrs
import orjson

from mnemosyne.domain.cost.catalogue import model_of
from mnemosyne.domain.cost.prompt import Keys, Prompt, PromptBlock, Tier, Ttl, block_of, serialize, with_automatic
from mnemosyne.domain.cost.prompt_cache import Cache, bill
from mnemosyne_lab.provider.reading import Body, Json, as_dict, blocks, list_placed, tokens, tools
from mnemosyne_lab.provider.rules_features import BILLING, rewrites_head

_MICROSECONDS = 1_000_000
_FRAME = 5
"""Characters around a block and its role."""


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
class Lookup:
    """A request's dealings with the cache; give it back to `begin_reply` when its reply begins."""

    use: CacheUse
    written: tuple[bytes, ...]
    at: int


class PromptCache:
    """The entries of one workspace."""

    def __init__(self) -> None:
        self._cache = Cache()

    def request(self, body: Body, now: float) -> Lookup:
        """Bill a request that starts now. Its writes become readable with `begin_reply`."""
        prompt, markers = _read(body)
        at = int(now * _MICROSECONDS)
        minimum = model_of(str(body.get("model", ""))).cache_minimum
        self._cache, billed = bill(self._cache, prompt, markers, started_at=at, minimum=minimum)
        used = billed.tokens
        return Lookup(CacheUse(used.read, used.write_5m, used.write_1h, used.input), billed.written, at)

    def begin_reply(self, lookup: Lookup) -> None:
        """Make the writes of a request readable, because its reply has begun."""
        self._cache = self._cache.begin_reply(lookup.written, lookup.at)


def steps(body: Body) -> Prompt:
    """The prompt block by block."""
    return _read(body)[0]


def _read(body: Body) -> tuple[Prompt, dict[int, Ttl]]:
    """The prompt and its markers, the automatic one (the top-level `cache_control`) among them."""
    placing = _Placing()
    if rewrites_head(body):
        placing.put(Tier.TOOLS, {"type": "tools_in_messages"})
    for tool in tools(body):
        placing.put(Tier.TOOLS, tool)
    for number, entry in enumerate(blocks(body.get("system"))):
        if number or not str(entry.get("text", "")).startswith(BILLING):
            placing.put(Tier.SYSTEM, entry)
    for item in list_placed(body):
        placing.put(Tier.MESSAGES, item.block, item.role)
    prompt = Prompt(_keys(body), placing.blocks)
    automatic = _ttl(body.get("cache_control"))
    return prompt, with_automatic(prompt, placing.markers, automatic) if automatic else placing.markers


class _Placing:
    """Collects the blocks of one body, with sizes that add up to the estimate for all of its text."""

    def __init__(self) -> None:
        self.blocks: list[PromptBlock] = []
        self.markers: dict[int, Ttl] = {}
        self._characters = 0
        self._tokens = 0

    def put(self, tier: Tier, value: dict[str, Json], role: str = "") -> None:
        """The next block of the prompt."""
        ttl = _ttl(value.get("cache_control"))
        if ttl:
            self.markers[len(self.blocks)] = ttl
        text = serialize(value)
        self._characters += len(text) + len(role) + _FRAME
        size = max(1, tokens(self._characters)) - self._tokens
        self._tokens += size
        self.blocks.append(block_of(tier, value, text, size, role))


def _keys(body: Body) -> Keys:
    effort = as_dict(body.get("output_config")).get("effort")
    image = any(_holds_image([item.block]) for item in list_placed(body))
    return Keys(
        model=str(body.get("model", "")),
        thinking=_text([body.get("thinking"), effort]),
        speed=_text(body.get("speed")),
        messages=_text([body.get("tool_choice"), image]),
    )


def _text(value: Json) -> str:
    """In the order the client wrote it."""
    return orjson.dumps(value).decode()


def _ttl(control: Json) -> Ttl | None:
    if not isinstance(control, dict):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def _holds_image(value: Json) -> bool:
    return any(
        block.get("type") == "image" or (isinstance(block.get("content"), list) and _holds_image(block["content"]))
        for block in blocks(value)
    )
