"""Run policies over recorded sessions on all cores and combine their results."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from pathlib import Path

import attrs

from mnemosyne.app.policies import render_error
from mnemosyne.domain.cost.catalogue import price_of
from mnemosyne.errors import BadOption
from mnemosyne_lab.evaluation.demand import demands
from mnemosyne_lab.evaluation.driver import simulate
from mnemosyne_lab.evaluation.judging import PlaceSample
from mnemosyne_lab.evaluation.policies import DENOMINATORS, NATIVE, POLICIES, UNCOMPACTED, UNMANAGED, choose_policies
from mnemosyne_lab.evaluation.policy import API_5M, MODEL, JudgedTariff, Policy, Settings
from mnemosyne_lab.evaluation.reading import Exported, read
from mnemosyne_lab.evaluation.results import Evaluation, PolicyComparison, PolicyResult, SessionResult, compare
from mnemosyne_lab.evaluation.sizing import Sized
from mnemosyne_lab.evaluation.trace import Step, Trace, pass_on, trace_of
from mnemosyne_lab.evaluation.verdict import (
    Driven,
    choose_policy_to_judge,
    find_judged,
    render_too_small,
    render_window,
    split_too_small,
    verdict,
)


@attrs.frozen(kw_only=True)
class RunPlan:
    """A run: the names of policies, their ``settings``, and the least number of turns. Without a ``model``, each
    session uses its own if the price is known. Policies are compared with the alternatives under each of ``tariffs``.
    With ``samples``, places for a judge are collected. It is sent to other processes, which policies cannot be.
    """

    policies: Sequence[str]
    settings: Settings
    model: str | None
    min_turns: int = 1
    tariffs: Sequence[JudgedTariff] = (API_5M,)
    samples: bool = False


NOTES = 3
"""The most sessions that are named for the same assumption."""


def evaluate(
    paths: Sequence[Path],
    asked: RunPlan,
    *,
    exported: Exported,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
    workers: int | None = None,
) -> Evaluation:
    """Evaluate all files under every policy. ``say`` gets each skipped input and assumption, ``progress`` the number of
    finished requests and their total. Raises BadOption for an unknown or failing policy.

    The same files and settings give the same evaluation, whatever the machine and the number of ``workers``.
    """
    choose_policies(asked.policies)  # reports a wrong name before anything is read
    recordings, skipped = _choose(read(paths, exported), asked.min_turns, say)
    return evaluate_recordings(recordings, asked, skipped=skipped, progress=progress, workers=workers)


def evaluate_recordings(
    recordings: Sequence[Trace],
    asked: RunPlan,
    *,
    skipped: Sequence[str] = (),
    progress: Callable[[int, int], None],
    workers: int | None = None,
) -> Evaluation:
    """Evaluate sessions that were read already; ``skipped`` are the reasons for those that could not be."""
    policies = choose_policies(asked.policies)
    results = _drive_all(asked, recordings, workers or os.cpu_count() or 1, progress)
    main, window = asked.settings.tariff.name, asked.settings.window
    too_small, results = split_too_small(results, window, (main, baseline_of(asked.settings).name))
    settings: dict[str, str | int | float] = {
        "tariff": main,
        "model": asked.model or f"the session's own, else {MODEL}",
        "fixed tokens": "the session's own" if asked.settings.fixed is None else asked.settings.fixed,
        "memory tools": "counted" if asked.settings.memory_tools else "not counted",
        "min turns": asked.min_turns,
    }
    developers = {each.developer for each in recordings}
    found = Evaluation(
        settings=settings if window is None else {**settings, "window": window},
        policies=[
            PolicyResult(
                name=policy.name,
                about=policy.about,
                sessions=[found[main, policy.name] for found in results],
                bound=policy.for_trace is not None,
            )
            for policy in policies
        ],
        skipped=skipped,
        comparisons=list(_comparisons(asked, policies, results)),
        legend=_legend(asked),
        developers=0 if None in developers else len(developers),
    )
    about = find_judged(found)
    judged = about.name if about is not None else None
    told: list[str] = []
    if window is not None:
        idle, native = ([found[main, name] for found in results] for name in (UNCOMPACTED.name, NATIVE.name))
        told = [*render_too_small(too_small, window), *render_window(window, idle, native, about)]
    return attrs.evolve(found, verdict=verdict(found), judged=judged, window=told)


def _choose(
    sessions: Iterable[Trace | str], min_turns: int, say: Callable[[str], None]
) -> tuple[list[Trace], list[str]]:
    recordings: list[Trace] = []
    skipped: list[str] = []
    assumed: dict[str, list[str]] = {}
    for found in sessions:
        if isinstance(found, str):
            skipped.append(found)
            say(f"Skipped: {found}")
        elif len(found.requests) >= min_turns:
            recordings.append(found)
            for note in found.notes:
                assumed.setdefault(note.lstrip("0123456789 "), []).append(f"{found.where} ({found.name}): {note}.")
    for what, notes in assumed.items():
        for each in notes[:NOTES]:
            say(each)
        if len(notes) > NOTES:
            say(f"The same of {len(notes) - NOTES} more of the sessions: {what}.")
    return recordings, skipped


def _drive_all(
    asked: RunPlan, recordings: Sequence[Trace], workers: int, progress: Callable[[int, int], None]
) -> list[Driven]:
    """The results in the order of the recordings. The longest start first, to keep all cores busy. Without worker
    processes, ``progress`` also advances within a session, which is simulated several times.
    """
    passes = 1 + len(_list_tariffs(asked)) * len(_list_driven(choose_policies(asked.policies)))
    results: dict[int, Driven] = {}
    whole = sum(len(each.requests) for each in recordings)
    done = steps = 0
    progress(0, whole)

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps % passes == 0:
            progress(done + steps // passes, whole)

    def list_ready() -> Iterator[tuple[int, Driven]]:
        if workers == 1 or len(recordings) <= 1:
            yield from enumerate(_session(asked, each, step) for each in recordings)
            return
        longest = sorted(range(len(recordings)), key=lambda number: -len(recordings[number].requests))
        with ProcessPoolExecutor(min(workers, len(recordings))) as pool:
            futures = {pool.submit(_session, asked, recordings[number], pass_on): number for number in longest}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    for number, found in list_ready():
        results[number] = found
        done, steps = done + len(recordings[number].requests), 0
        progress(done, whole)
    return [results[number] for number in range(len(recordings))]


def _session(asked: RunPlan, recorded: Trace, step: Step) -> Driven:
    """Drive one session under each policy and each alternative. Reality is always driven as the reference; in a limited
    window that is a client that compacts. Raises BadOption if a user's own policy fails.
    """
    baseline = baseline_of(asked.settings)
    trace = trace_of(recorded, step)
    sized = Sized(trace, attrs.evolve(asked.settings, model=asked.model or own_model(recorded.model)))
    wanted = demands(trace)
    policies = choose_policies(asked.policies)
    sampled = choose_policy_to_judge(policies) if asked.samples else None
    window = asked.settings.window
    if window is not None and sized.head.tokens >= window:  # nothing can be done, and one run says so
        settings = sized.settings
        return {(settings.tariff.name, baseline.name): simulate(sized, (), attrs.evolve(baseline, compacts=None))}
    found: dict[tuple[str, str], SessionResult] = {}
    for tariff in _list_tariffs(asked):
        under = sized.under(attrs.evolve(sized.settings, tariff=tariff))
        is_main = tariff == asked.settings.tariff
        reality = simulate(under, wanted if is_main else (), baseline, step=step)
        for policy in _list_driven(policies):
            # Demands matter for a judged policy and for one that restores.
            needed = wanted if (is_main and policy in policies) or policy.planner or policy.for_trace else ()
            sample = PlaceSample(under) if is_main and policy is sampled else None
            try:
                observe = None if sample is None else sample.add
                driven = reality if policy is baseline else simulate(under, needed, policy, reality, step, observe)
            except Exception as error:
                if policy in POLICIES:
                    raise
                raise BadOption(f"The policy {policy.name} failed on {trace.name}: {render_error(error)}.") from None
            if is_main and recorded.nanodollars is not None and asked.model is None and window is None:
                driven = driven.scale_to(recorded.nanodollars)
            found[tariff.name, policy.name] = driven if sample is None else attrs.evolve(driven, places=sample.places)
    return found


def _list_tariffs(asked: RunPlan) -> Sequence[JudgedTariff]:
    """The tariffs, the main one first."""
    return list(dict.fromkeys((asked.settings.tariff, *asked.tariffs)))


def _list_driven(policies: Sequence[Policy]) -> Sequence[Policy]:
    """The policies to drive, including the alternatives."""
    return list({each.name: each for each in (*DENOMINATORS, *policies)}.values())


def _comparisons(asked: RunPlan, policies: Sequence[Policy], results: Sequence[Driven]) -> Iterator[PolicyComparison]:
    compared = [policy for policy in policies if policy not in DENOMINATORS]
    for tariff, policy, other in product(asked.tariffs, compared, _list_denominators(asked)):
        managed, without = ([found[tariff.name, name] for found in results] for name in (policy.name, other.name))
        yield compare(tariff.name, policy.name, other.name, managed, without)


def _legend(asked: RunPlan) -> dict[str, str]:
    """Descriptions of the tariffs and alternatives, with their assumptions."""
    legend = {tariff.name: tariff.about for tariff in asked.tariffs}
    for policy in _list_denominators(asked):
        legend[policy.name] = policy.about + (f" A guess: {policy.guess}." if policy.guess else "")
    return legend


def _list_denominators(asked: RunPlan) -> Sequence[Policy]:
    """The alternatives: in a limited window only a client that compacts in it."""
    if asked.settings.window is None:
        return DENOMINATORS
    scaled = "In another window than 200,000 tokens all of these numbers are as much smaller or larger."
    return (attrs.evolve(NATIVE, about=f"{NATIVE.about} {scaled}"),)


def baseline_of(settings: Settings) -> Policy:
    """The reference policy: reality, or a compacting client in a limited window."""
    return UNMANAGED if settings.window is None else NATIVE


def own_model(model: str | None) -> str:
    """A session's model if its price is known, else MODEL."""
    return model if model is not None and price_of(model) is not None else MODEL
