"""What says no more than yes, or which of the things that were offered."""

import re

_GO_ON = """
yes yeah yep yup y ok okay k sure please do it this that go ahead on continue proceed lets let s sounds good great
nice perfect cool thanks thank you fine right correct exactly agreed lgtm yea both all first only then the one ones
option fix implement apply so and for a to with just like approve approved
ja oui si sí da sim genau weiter mach gern accord claro vale dale bien certo va bene да давай хорошо
はい うん お願いします 好 好的 是 是的 对 行 可以 继续 네 예 좋아
"""
_WORD = re.compile(r"[^\W_]+")

_MOST_WORDS = 10
"""Words of a message that only consents."""

_CONSENT = "yes yeah yep yup ok okay sure fine right lets let ja oui si sí da давай はい 好 是"
_GOING_ON, _CONSENTING = frozenset(_GO_ON.split()), frozenset(_CONSENT.split())


def consents(said: str) -> bool:
    """Whether nothing is in it but consent and numbers, one other word aside."""
    said_words = [word.lower() for word in _WORD.findall(said)]
    others = [word for word in said_words if word not in _GOING_ON and not word.isdecimal()]
    one_other = len(others) == 1 and said_words[0] in _CONSENTING
    return len(said_words) <= _MOST_WORDS and (not others or one_other)
