"""Tasks that no turn waits for: an order from a session, and the effect of a result on it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne.domain.helper.task import HelperTask, Inputs, Result
from mnemosyne.domain.objects import decide as objects


@attrs.frozen(kw_only=True)
class HelperOrder:
    """A session's order for work on its ``subject``: an object, or what else the task says. ``about`` are the task's
    own data. ``contents`` (``ObjectCreated.content``) and ``texts`` (digests of stored texts) by name are read before
    the task begins.
    """

    task: str
    subject: str
    branch: str | None = None
    turn: int | None = None
    about: Any = None
    contents: Mapping[str, bytes] = attrs.field(factory=dict)
    texts: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Effect:
    """The commands to a session's objects that follow from a result, and the contents that they name, by digest.
    ``learned`` is for the memory across sessions, with the ``context`` of its order.
    """

    commands: tuple[objects.Command, ...] = ()
    contents: tuple[tuple[bytes, bytes], ...] = attrs.field(default=(), repr=False)
    learned: Sequence[Any] = ()
    context: Any = None


NO_EFFECT = Effect()


@attrs.frozen(kw_only=True)
class Signed:
    """A ``result`` with the name of the helper model and the time, in µs of UTC."""

    result: Any
    helper: str
    at: int


@attrs.frozen(kw_only=True)
class BackgroundTask(HelperTask[Inputs, Result]):
    """A helper task for which no turn waits. ``gather`` makes its inputs from an order and the contents read for it;
    None if there is nothing to ask. ``apply`` gives the effect of a result on the session's objects.
    """

    gather: Callable[[HelperOrder, Mapping[str, bytes]], Inputs | None]
    apply: Callable[[HelperOrder, Inputs, Signed], Effect] = lambda _order, _inputs, _signed: NO_EFFECT
