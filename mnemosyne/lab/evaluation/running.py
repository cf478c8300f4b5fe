"""Runs policies over recorded sessions, on all cores, and puts what they found together."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import attrs

from mnemosyne.domain.cost.prices import price_of
from mnemosyne.errors import BadOption
from mnemosyne.lab.evaluation.demand import demands
from mnemosyne.lab.evaluation.driver import simulate
from mnemosyne.lab.evaluation.policies import POLICIES, UNMANAGED
from mnemosyne.lab.evaluation.policy import MODEL, Policy, Settings
from mnemosyne.lab.evaluation.reading import Exported, RecordedSession, read, trace_of
from mnemosyne.lab.evaluation.results import Evaluation, PolicyResult, SessionResult
from mnemosyne.lab.evaluation.sizing import Sized


@attrs.frozen(kw_only=True)
class RunPlan:
    """A run: the names of policies, under which ``settings``, on sessions of how many turns. Without a ``model``, each
    session's own stands if its price is known. It goes to other processes, and what a policy is does not.
    """

    policies: Sequence[str]
    settings: Settings
    model: str | None
    min_turns: int = 1


def chosen_names(names: Sequence[str]) -> list[str]:
    """These policies, each once, in the order of the table; without names, all. Raises BadOption."""
    known = [policy.name for policy in POLICIES]
    for name in names:
        if name not in known:
            raise BadOption(f"There is no policy {name!r}; there are {', '.join(known)}.")
    return [name for name in known if not names or name in names]


def _policies(asked: RunPlan) -> list[Policy]:
    return [policy for policy in POLICIES if policy.name in asked.policies]


def evaluate(
    paths: Sequence[Path],
    asked: RunPlan,
    *,
    exported: Exported,
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
    workers: int | None = None,
) -> Evaluation:
    """Everything that is in the files under every policy. ``say`` is told what was skipped or assumed, as it is found.

    The same files and settings give the same evaluation, on any machine and number of ``workers``.
    """
    recordings, skipped = _chosen(read(paths, exported), asked.min_turns, say)
    results: list[Sequence[SessionResult]] = []
    progress(0, len(recordings))
    for found in _results(partial(_session, asked), recordings, workers or os.cpu_count() or 1):
        results.append(found)
        progress(len(results), len(recordings))
    policies = [
        PolicyResult(
            name=policy.name,
            about=policy.about,
            sessions=[found[number] for found in results],
            bound=policy.for_trace is not None,
        )
        for number, policy in enumerate(_policies(asked))
    ]
    settings: dict[str, str | int | float] = {
        "ttl": asked.settings.ttl,
        "model": asked.model or f"the session's own, else {MODEL}",
        "fixed tokens": asked.settings.fixed,
        "min turns": asked.min_turns,
    }
    return Evaluation(settings=settings, policies=policies, skipped=skipped)


def _chosen(
    sessions: Iterable[RecordedSession | str], min_turns: int, say: Callable[[str], None]
) -> tuple[list[RecordedSession], list[str]]:
    recordings: list[RecordedSession] = []
    skipped: list[str] = []
    for found in sessions:
        if isinstance(found, str):
            skipped.append(found)
            say(f"Skipped: {found}")
        elif len(found.requests) >= min_turns:
            recordings.append(found)
            for note in found.notes:
                say(f"{found.where} ({found.name}): {note}.")
    return recordings, skipped


def _results(
    run: Callable[[RecordedSession], Sequence[SessionResult]], recordings: Sequence[RecordedSession], workers: int
) -> Iterator[Sequence[SessionResult]]:
    """In the order of the recordings, whichever is ready first."""
    if workers == 1 or len(recordings) == 1:
        yield from map(run, recordings)
        return
    with ProcessPoolExecutor(min(workers, len(recordings) or 1)) as pool:
        yield from pool.map(run, recordings)


def _session(asked: RunPlan, recorded: RecordedSession) -> list[SessionResult]:
    """One session under every policy. Reality is always driven, because everything is compared with it."""
    trace = trace_of(recorded)
    sized = Sized(trace, attrs.evolve(asked.settings, model=asked.model or own_model(recorded.model)))
    wanted = demands(trace)
    reality = simulate(sized, wanted, UNMANAGED)
    return [reality if policy is UNMANAGED else simulate(sized, wanted, policy, reality) for policy in _policies(asked)]


def own_model(model: str | None) -> str:
    """A session's model if its price is known, else MODEL."""
    return model if model is not None and price_of(model) is not None else MODEL
