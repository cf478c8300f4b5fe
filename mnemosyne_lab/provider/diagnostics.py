"""Cache diagnostics: how a request's prompt differs from an earlier request's, which it names by its reply's id.

The comparison is about the requests and not about the cache. Sources: the pages "Cache diagnostics" (Messages API) and
"Prompt cache diagnostics" (Responses), read in November 2026.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import orjson

from mnemosyne_lab.provider.openai_messages import item_type, list_items, list_tools
from mnemosyne_lab.provider.reading import Body, Headers, Json, Violation, as_dict, betas, blocks, list_placed, tokens
from mnemosyne_lab.provider.rules import BILLING

NOT_FOUND = "previous_message_not_found"
UNAVAILABLE = "unavailable"
_ASKED_OF_MESSAGES = ("tool_choice", "thinking", "context_management", "output_config", "output_format")


@attrs.frozen
class Fingerprint:
    """A prompt for comparison: ``settings`` by the reason that another value gives, in the order in which they are
    compared, then the parts that form the prefix. ``others`` prevent a comparison if they differ.
    """

    settings: Mapping[str, bytes]
    parts: Mapping[str, Sequence[bytes]]
    others: bytes = b""

    def find_divergence(self, before: "Fingerprint") -> tuple[str, int] | None:
        """The reason for the first difference to an earlier prompt, and the earlier prompt's tokens behind it."""
        for reason, value in self.settings.items():
            if value != before.settings[reason]:
                return reason, before.count_tokens(0, 0)
        for number, (reason, part) in enumerate(self.parts.items()):
            known = before.parts[reason]
            grows = number == len(self.parts) - 1
            if grows and self.others != before.others:
                return UNAVAILABLE, 0
            same = next((i for i, (one, other) in enumerate(zip(part, known, strict=False)) if one != other), None)
            if same is None and (len(part) < len(known) or (len(part) > len(known) and not grows)):
                same = min(len(part), len(known))
            if same is not None:
                return reason, before.count_tokens(number, same)
        return None

    def count_tokens(self, part: int, start: int) -> int:
        """An estimate of the tokens from an entry of a part to the prompt's end."""
        listed = list(self.parts.values())[part:]
        return tokens(sum(map(len, listed[0][start:])) + sum(len(entry) for rest in listed[1:] for entry in rest))


class MessagesDiagnostics:
    """The requests of the Messages API that included ``diagnostics``, by the ids of their replies."""

    def __init__(self) -> None:
        self._known: dict[str, Fingerprint] = {}

    def compare(self, body: Body, headers: Headers, message_id: str) -> Json:
        """The ``diagnostics`` of the reply; None if the request asked for none or nothing differs."""
        asked = body.get("diagnostics")
        if not isinstance(asked, dict):
            return None
        made = _read_messages(body, headers)
        before = self._known.get(str(asked.get("previous_message_id")))
        self._known[message_id] = made
        if asked.get("previous_message_id") is None:
            return None
        if before is None:
            return {"cache_miss_reason": {"type": NOT_FOUND}}
        found = made.find_divergence(before)
        if found is None:
            return None
        counted = {} if found[0] == UNAVAILABLE else {"cache_missed_input_tokens": found[1]}
        return {"cache_miss_reason": {"type": found[0], **counted}}


def find_diagnostics_violation(body: Body, *, refuses: bool) -> list[Violation]:
    """The violation of a request for diagnostics. ``refuses``: this provider does not know the field."""
    asked = body.get("diagnostics") if isinstance(body, dict) else None
    if asked is None:
        return []
    if refuses:
        return [Violation("R0", "diagnostics: Extra inputs are not permitted", "diagnostics")]
    named = asked.get("previous_message_id") if isinstance(asked, dict) else ""
    if named is None or (isinstance(named, str) and named.startswith("msg_")):
        return []
    path = "diagnostics.previous_message_id"
    text = f"{path}: must be the `id` from a prior /v1/messages response (starts with `msg_`)"
    return [Violation("R0", text, path)]


def _read_messages(body: Body, headers: Headers) -> Fingerprint:
    system = [entry for entry in blocks(body.get("system")) if not str(entry.get("text", "")).startswith(BILLING)]
    others = [[body.get(name) for name in _ASKED_OF_MESSAGES], sorted(betas(headers))]
    return Fingerprint(
        settings={"model_changed": orjson.dumps([body.get("model"), body.get("speed")])},
        parts={
            "tools_changed": _write_all(blocks(body.get("tools"))),
            "system_changed": _write_all(system),
            "messages_changed": _write_all({"role": each.role, **each.block} for each in list_placed(body)),
        },
        others=orjson.dumps(others),
    )


class ResponsesDiagnostics:
    """The requests of the Responses API, by the ids of their responses."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Fingerprint, int]] = {}

    def compare(self, body: Body, response_id: str, reusable: int) -> dict[str, Any] | None:
        """The ``prompt_cache_diagnostics`` of the response; None if the request names no response. ``reusable`` are the
        tokens of this request that a later one can read from the cache.
        """
        named = as_dict(body.get("prompt_cache_options")).get("comparison_response_id")
        made = _read_responses(body)
        before = self._known.get(str(named))
        self._known[response_id] = made, reusable
        if named is None:
            return None
        if before is None:
            return {"type": "comparison_response_not_found"}
        found = made.find_divergence(before[0])
        if found is None:
            return {"type": "cache_hit"}
        is_compacted = any(item_type(item) == "compaction" for item in list_items(body))
        return {
            "type": "cache_miss",
            "reason": "context_compacted" if is_compacted and found[0] == "input_changed" else found[0],
            "comparison_reusable_tokens": before[1],
            "cache_missed_tokens": min(found[1], before[1]),
        }


def _read_responses(body: Body) -> Fingerprint:
    text, reasoning = as_dict(body.get("text")), as_dict(body.get("reasoning"))
    first = {"instructions": body.get("instructions")}
    settings = {
        **{name: body.get(name) for name in ("model", "prompt_cache_key", "service_tier")},
        "text_format": text.get("format"),
        "reasoning_effort": reasoning.get("effort"),
        "verbosity": text.get("verbosity"),
    }
    return Fingerprint(
        settings={f"{name}_changed": orjson.dumps(value) for name, value in settings.items()},
        parts={"tools_changed": _write_all(list_tools(body)), "input_changed": _write_all([first, *list_items(body)])},
    )


def _write_all(values: Iterable[Mapping[str, Json]]) -> list[bytes]:
    """The values as the cache compares them: without markers."""
    return [orjson.dumps({key: value for key, value in each.items() if key != "cache_control"}) for each in values]
