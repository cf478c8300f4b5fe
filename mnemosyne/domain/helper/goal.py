"""The task that states the user's goal, and predicts which evicted objects it needs.

Without a helper model, there is no goal, and nothing is predicted.
"""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import attrs

from mnemosyne import credentials
from mnemosyne.domain.helper.background import BackgroundTask, HelperOrder
from mnemosyne.domain.helper.model import STRING, HelperPrompt, list_of
from mnemosyne.domain.helper.task import LONGEST_RECORD, Accepted, Rejected, list_strings, write_prompt
from mnemosyne.domain.objects.aggregate import MemoryObject
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.ids import MARK
from mnemosyne.domain.objects.kinds import UNCHANGED
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.session.helper_results import GOAL, Goal
from mnemosyne.domain.session.sanitize import blank_private
from mnemosyne.domain.text.grounding import find_invented
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.wire.dialect import Dialect
from mnemosyne.domain.wire.messages import MESSAGES

LONGEST_GOAL = 200
"""Maximum number of characters of a goal."""

LONGEST_PROMPT = 4_000
"""Maximum number of characters of a prompt that are sent: three quarters from its beginning, the rest from its end."""

MOST_LISTED = 60
"""Maximum number of evicted objects in the list: the newest, and the largest of the others."""

MOST_PREDICTED = 8
"""Maximum number of objects in each list of an answer."""

_LONGEST_LINE, _LONGEST_READ = 160, 1 << 20

PROPERTIES: Mapping[str, Any] = {"goal": STRING, "needed": list_of(STRING), "unneeded": list_of(STRING)}

_INSTRUCTIONS = """\
You read a message that the user of a coding agent has sent, and a list of records that were evicted from the agent's \
context. Reply with one JSON object and nothing else: {"goal": string, "needed": [string], "unneeded": [string]}.

goal: what the user wants now, in one line of at most 200 characters, in the user's language. If the message only \
continues the work, repeat the previous goal.
needed: the ids of records whose exact text the agent will certainly need again for this message, the most important \
first, at most 3. If in doubt, leave a record out: one that is not needed costs money.
unneeded: the ids of records that are not needed for this goal, at most 8.
Use only ids from the list."""


@attrs.frozen(kw_only=True)
class GoalInputs:
    """A user's prompt, the goal ``before`` it, and the evicted objects, each as id and description."""

    prompt: str = attrs.field(repr=False)
    before: str = ""
    evicted: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)


def order_goal(
    memory: Memory,
    branch: str,
    turn: int,
    prompt: str,
    before: Goal | None,
    dialect: Dialect,
    *,
    predicts: bool = True,
) -> HelperOrder:
    """The order for the goal of the exchange that a prompt begins. Objects are listed only if they can be placed behind
    the results of tools in this ``dialect``, and if the session ``predicts`` and that pays.
    """
    predicts = predicts and dialect is MESSAGES and not (before is not None and before.is_paused)
    inputs = GoalInputs(
        prompt=prompt,
        before="" if before is None else before.text,
        evicted=tuple(_list_evicted(memory, branch)) if predicts else (),
    )
    return HelperOrder(task=GOAL, subject=branch, branch=branch, turn=turn, about=inputs)


def _gather(order: HelperOrder, _: Mapping[str, bytes]) -> GoalInputs:
    inputs: GoalInputs = order.about
    prompt = credentials.mask(
        blank_private(inputs.prompt[:_LONGEST_READ])
    )  # before it is cut, so that no half of one remains
    if len(prompt) > LONGEST_PROMPT:
        last = LONGEST_PROMPT // 4
        prompt = f"{prompt[: LONGEST_PROMPT - last]}\n[…]\n{prompt[-last:]}"
    return attrs.evolve(inputs, prompt=prompt)


def _list_evicted(memory: Memory, branch: str) -> Iterator[tuple[str, str]]:
    evicted = [each for each, fidelity in memory.within_reach(branch) if _may_return(each, fidelity)]
    evicted.sort(key=lambda each: (each.last_turn, each.tokens), reverse=True)
    newest, others = evicted[: MOST_LISTED // 2], evicted[MOST_LISTED // 2 :]
    others.sort(key=lambda each: each.tokens, reverse=True)
    for each in (*newest, *others[: MOST_LISTED - len(newest)]):
        yield each.id, f"turn {each.last_turn}, {each.tokens} tokens: {plain(each.line or each.stub, _LONGEST_LINE)}"


def _may_return(each: MemoryObject, fidelity: Fidelity) -> bool:
    is_evicted = fidelity > Fidelity.COMPACT and bool(each.places)
    return is_evicted and not each.forgotten and not each.stale and UNCHANGED not in each.tags


def _prompt(inputs: GoalInputs) -> HelperPrompt:
    listed = "\n".join(f"{MARK}{key} {line}" for key, line in inputs.evicted)
    return write_prompt(
        _INSTRUCTIONS,
        {},
        [("message", inputs.prompt), ("previous goal", inputs.before), ("records", listed)],
        most_tokens=400,
    )


def _verify(inputs: GoalInputs, answer: Mapping[str, Any]) -> Accepted[Mapping[str, Any]] | Rejected:
    goal = answer["goal"]
    lists = {name: list_strings(answer[name], MOST_PREDICTED, LONGEST_RECORD) for name in ("needed", "unneeded")}
    if not isinstance(goal, str) or None in lists.values():
        return Rejected(("the answer does not match the schema",))
    dropped: list[str] = []
    goal = " ".join(goal.split())
    source = "\n".join((inputs.prompt, inputs.before, *map(itemgetter(1), inputs.evicted)))
    if len(goal) > LONGEST_GOAL or find_invented(source, goal):
        goal = ""
        dropped.append("the goal is too long or not supported by the prompt")
    record: dict[str, Any] = {"goal": goal}
    known = {key for key, _ in inputs.evicted}
    for name, ids in lists.items():
        found = dict.fromkeys(each.removeprefix(MARK) for each in ids or ())
        record[name] = [each for each in found if each in known]
        if len(record[name]) < len(found):
            dropped.append("an object is not in the list")
    record["unneeded"] = [each for each in record["unneeded"] if each not in record["needed"]]
    if dropped and not any(record.values()):
        return Rejected(tuple(dropped))
    return Accepted(record, record, tuple(dropped))


FIND_GOAL = BackgroundTask(name=GOAL, version=2, properties=PROPERTIES, prompt=_prompt, verify=_verify, gather=_gather)
