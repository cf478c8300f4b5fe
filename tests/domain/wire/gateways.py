"""The ways in which servers of Chat Completions were seen to number and cut the calls of a streamed reply."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import attrs
from hypothesis import strategies as st

Json = dict[str, Any]


@attrs.frozen
class Called:
    id: str
    name: str
    arguments: str

    def as_whole(self, style: "CallStyle") -> Json:
        """Return the call as it is in a reply that is not streamed."""
        function = {"name": self.name, "arguments": self.arguments}
        return ({} if style.id == "none" else {"id": self.id}) | {"function": function}


@attrs.frozen(kw_only=True)
class CallStyle:
    """How a server writes its calls."""

    index: str = "right"
    id: str = "first"
    name: str = "first"
    cut: str = "pieces"
    order: str = "in turn"
    between: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether a reader can tell which call each piece belongs to."""
        numbered = self.index in ("right", "float", "digits")
        if self.order == "interleaved" or self.cut == "one delta":
            return numbered or self.id == "each"
        return numbered or self.id in ("first", "each") or self.name in ("first", "each")

    def write(self, calls: list[Called]) -> list[Json]:
        """Return the deltas of a choice."""
        written = [list(self._pieces(number, call)) for number, call in enumerate(calls)]
        if self.order == "interleaved":
            turns = itertools.zip_longest(*written)
            pieces = [[piece for piece in turn if piece is not None] for turn in turns]
            groups = pieces if self.cut == "one delta" else [[piece] for turn in pieces for piece in turn]
        elif self.cut == "one delta":
            groups = [[piece for call in written for piece in call]]
        else:
            groups = [[piece] for call in written for piece in call]
        deltas: list[Json] = [{"tool_calls": group} for group in groups]
        if self.between:
            deltas = [item for delta in deltas for item in (delta, {"content": "so "})]
        return deltas

    def _pieces(self, number: int, call: Called) -> Iterator[Json]:
        half = len(call.arguments) // 2
        texts = ["", call.arguments[:half], call.arguments[half:], ""]
        names = {
            "first": [call.name],
            "late": ["", call.name],
            "each": [call.name] * 4,
            "pieces": [call.name[:3], call.name[3:]],
        }[self.name]
        if self.name in ("late", "pieces"):
            texts.insert(1, "")
        if self.cut == "whole":
            texts = [call.arguments] if self.name in ("first", "each") else ["", "", call.arguments]
        for place, text in enumerate(texts):
            piece: Json = self.number(number)
            if self.id == "each" or place == {"first": 0, "late": 1}.get(self.id):
                piece["id"] = call.id
            name = names[place] if place < len(names) else None
            yield {**piece, "function": {"arguments": text} | ({} if name is None else {"name": name})}

    def number(self, number: int) -> Json:
        match self.index:
            case "right":
                return {"index": number}
            case "zero":
                return {"index": 0}
            case "float":
                return {"index": float(number)}
            case "digits":
                return {"index": str(number)}
            case "null":
                return {"index": None}
            case _:
                return {}


def call_styles() -> st.SearchStrategy[CallStyle]:
    """Return all styles whose calls a reader can assemble."""
    styles = st.builds(
        CallStyle,
        index=st.sampled_from(["right", "zero", "float", "digits", "null", "none"]),
        id=st.sampled_from(["first", "each", "late", "none"]),
        name=st.sampled_from(["first", "late", "each", "pieces"]),
        cut=st.sampled_from(["pieces", "whole", "one delta"]),
        order=st.sampled_from(["in turn", "interleaved"]),
        between=st.booleans(),
    )
    return styles.filter(lambda style: style.is_readable and not (style.cut == "whole" and style.id == "late"))


def called(names: tuple[str, ...] = ("bash", "read", "memory", "memory_query")) -> st.SearchStrategy[list[Called]]:
    """Return calls with distinct ids."""
    inputs = st.dictionaries(st.text(max_size=3), st.text(max_size=4) | st.integers(0, 9), max_size=2)
    one = st.tuples(st.sampled_from(names), inputs.map(json.dumps))
    return st.lists(one, max_size=4).map(
        lambda made: [Called(f"call_{number}", *name_and_input) for number, name_and_input in enumerate(made)]
    )
