"""Whether the provider's comparison of two requests and ours find the same change.

Both providers compare the requests and not the cache, so an expired entry is no difference for them. A difference in a
setting hides later ones from us, and earlier ones from the Messages API, which then makes no comparison.
"""

from mnemosyne.domain.cost.prompt_changes import Change, ChangedPart
from mnemosyne.domain.wire.cache_verdict import Compared

_SAME_PARTS = {
    Compared.MODEL: frozenset({ChangedPart.MODEL}),
    Compared.SETTINGS: frozenset({ChangedPart.SETTING}),
    Compared.TOOLS: frozenset({ChangedPart.TOOLS}),
    Compared.SYSTEM: frozenset({ChangedPart.SYSTEM}),
    Compared.MESSAGES: frozenset({ChangedPart.MESSAGES}),
    Compared.INPUT: frozenset({ChangedPart.SYSTEM, ChangedPart.MESSAGES}),
}


def agrees(compared: Compared, change: Change | None) -> bool | None:
    """Whether both find no change, or one in the same part; None if the provider's result or ours is inconclusive."""
    if not compared.is_conclusive:
        return None
    if change is None:
        return compared is Compared.SAME
    if change.part is ChangedPart.SETTING and change.name == "speed":
        return compared in (Compared.MODEL, Compared.SETTINGS)
    if change.part is ChangedPart.SETTING and compared is not Compared.SETTINGS:
        return None
    if change.thinking and compared is Compared.SAME:
        return None  # a model that drops earlier thinking, which the client still sends
    return change.part in _SAME_PARTS.get(compared, ())
