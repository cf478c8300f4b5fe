"""``--judge`` of ``mnemosyne evaluate`` and ``mnemosyne trial``: judgements by the configured helper model."""

import os
from collections.abc import Callable, Sequence

import attrs
import trio

from mnemosyne.actors.helper_calls import HelperBudget, HelperCalls, HelperReply
from mnemosyne.adapters.helpers.opening import check_helper, open_helper
from mnemosyne.app.process import now
from mnemosyne.cli.printing import progress_bar
from mnemosyne.config import Config
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.domain.helper.model import HelperPrompt
from mnemosyne.domain.helper.task import HelperTask, Inputs, Result
from mnemosyne.domain.session.budget import Budget, DaySpending
from mnemosyne.errors import BadOption, alone
from mnemosyne.figures import dollars_text, plural, printable
from mnemosyne_lab.evaluation.judging import JUDGE, JudgedPlace, Judgement, JudgeResult, choose_places, one_line
from mnemosyne_lab.evaluation.results import Evaluation


def check_judge(config: Config) -> None:
    """Raise BadOption if no helper model is configured that can judge, BadConfiguration if it cannot be opened."""
    if config.helper in ("extractive", "client"):
        raise BadOption(
            f"--judge needs a helper model, and helper = {config.helper} provides none here. "
            "Set helper = anthropic or helper = openai."
        )
    check_helper(config, os.environ)


def judge(config: Config, found: Evaluation, count: int) -> JudgeResult | None:
    """Judge at most ``count`` places of the sampled policy; None if there are none."""
    sampled = {each.name: [one.places for one in each.sessions] for each in found.policies}
    policy = next((name for name, places in sampled.items() if any(places)), None)
    if policy is None:
        return None
    places = choose_places(sampled[policy], count)
    helper, replies = ask_judge(config, JUDGE, places)
    return JudgeResult(
        policy=policy,
        helper=helper,
        sampled=len(places),
        judgements=[Judgement(place, reply.verdict) for place, reply in zip(places, replies, strict=False)],
        nanodollars=sum(reply.nanodollars for reply in replies),
    )


def ask_judge(
    config: Config,
    task: HelperTask[Inputs, Result],
    inputs: Sequence[Inputs],
    find_record: Callable[[str, HelperPrompt], str | None] = lambda helper, prompt: None,
) -> tuple[str, Sequence[HelperReply[Result]]]:
    """The helper's name and its replies to the inputs, in order; fewer if its budget is used up or it keeps failing.
    ``find_record`` finds an earlier answer of this helper to a prompt.

    Inputs are asked one at a time, within the helper's budget for one day, because no session records the cost.
    """
    limit = round(config.helper_budget_dollars_per_day * NANODOLLARS)
    replies: list[HelperReply[Result]] = []

    async def ask(progress: Callable[[int, int], None]) -> str:
        async with open_helper(config, os.environ) as source:
            assert source is not None
            model = source.models_for(None)[0]
            calls = HelperCalls(model, HelperBudget(_NothingSpent(limit), Budget(limit, 1.0), now))
            for number, each in enumerate(inputs):
                progress(number, len(inputs))
                prompt = task.write(each)
                reply = await calls.ask(task, each, prompt, find_record(calls.name, prompt))
                if reply is None:
                    break
                calls.budget.charge(reply.nanodollars)
                replies.append(reply)
        return calls.name

    with progress_bar("judging") as progress:
        try:
            return trio.run(ask, progress), replies
        except ExceptionGroup as group:
            raise alone(group) from None


@attrs.frozen
class _NothingSpent:
    """No recorded spending; turns that allow a helper the whole ``limit``."""

    limit: int

    async def on_day(self, day: int) -> DaySpending:
        return DaySpending(day, turns=self.limit)


def render_judge(found: JudgeResult | None) -> str:
    """The verdicts, and the reasons for each place without an equivalent context or without a verdict."""
    if found is None:
        return "\nNothing to judge: no policy evicted anything before a recorded action."
    judged = len(found.judgements) - len(found.rejected)
    lines = [
        "",
        f"{plural(judged, 'place')} under {printable(found.policy)} judged by {printable(found.helper)}: "
        f"{found.equivalent} equivalent, {len(found.different)} not equivalent; "
        f"{plural(len(found.rejected), 'answer')} rejected; cost {dollars_text(found.nanodollars)}.",
    ]
    for place, differences in found.different:
        lines += [f"{_name(place)}: not equivalent"]
        lines += [f"  {one_line(each.why)}\n    > {one_line(each.quote)}" for each in differences]
    lines += [f"{_name(place)}: rejected because {one_line('; '.join(reasons))}" for place, reasons in found.rejected]
    if (missing := found.sampled - len(found.judgements)) > 0:
        lines.append(f"{plural(missing, 'place')} not judged: the budget was used up, or the helper kept failing.")
    return "\n".join(lines)


def _name(place: JudgedPlace) -> str:
    return f"{printable(place.session)}, turn {place.turn}"
