"""The cost of a client's sessions, and their cost with Mnemosyne, from its own transcripts, without proxy, key or
network.

Recorded costs are added up from the provider's counts. The alternative is simulated; the simulation of reality is
compared with the record to show its error.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import attrs

from mnemosyne.domain.cost.prices import Tokens
from mnemosyne.domain.session.events import BranchKind
from mnemosyne.figures import plural
from mnemosyne_lab.evaluation.cache_misses import RecordedReading, RecordedRequest, read_recorded, requests_of
from mnemosyne_lab.evaluation.policies import UNMANAGED
from mnemosyne_lab.evaluation.policy import API_1H, API_5M, QUOTA, JudgedTariff, Settings
from mnemosyne_lab.evaluation.reading import LINES_NAMED, Unreadable, recording
from mnemosyne_lab.evaluation.results import Evaluation
from mnemosyne_lab.evaluation.running import RunPlan, evaluate_recordings
from mnemosyne_lab.evaluation.trace import Trace
from mnemosyne_lab.evaluation.transcripts import TranscriptConversation, TranscriptLine, conversations_of, lines_of
from mnemosyne_lab.evaluation.verdict import OURS


@attrs.frozen(kw_only=True)
class WhatIf:
    """``recorded`` is the cost of all replies at list prices in nanodollars. ``tariff`` is the recorded one;
    ``evaluation`` is None if there was nothing to simulate. ``unknown`` are sentences about missing information,
    ``skipped`` about unreadable input.
    """

    sessions: int
    agents: int
    replies: int
    used: Tokens
    recorded: int
    unpriced: int
    tariff: JudgedTariff
    evaluation: Evaluation | None
    unknown: Sequence[str]
    skipped: Sequence[str]


def what_if(
    paths: Sequence[Path],
    *,
    since: str,
    tariffs: Sequence[JudgedTariff],
    say: Callable[[str], None],
    progress: Callable[[int, int], None],
    managed: Collection[str] = (),
    workers: int | None = None,
) -> WhatIf:
    """Evaluate the conversations in transcripts that were active after ``since`` (ISO 8601, UTC), each as a whole,
    without those of sessions that Mnemosyne ``managed``, by the client's names.
    Default ``tariffs``: the recorded one and a quota. ``progress`` counts the files read, then the simulated requests.
    """
    skipped: list[str] = []

    def skip(sentence: str) -> None:
        skipped.append(sentence)
        say(f"Skipped: {sentence}")

    seen: set[str] = set()  # a reply in several files belongs to the oldest
    files = _files(paths, skip, progress)
    read = [each for name, lines in files for each in conversations_of(name, lines, seen)]
    active = [each for each in read if each.is_used_since(since)]
    used_since = [each for each in active if each.client_name not in managed]
    found = [each for each in used_since if each.replies]
    replies = [reply for each in found for reply in each.replies]
    used = sum((reply.used for reply in replies), Tokens())
    tariff = API_1H if used.write_1h > used.write_5m else API_5M
    recordings = list(_recordings(found, skip))
    evaluation = None
    if recordings:
        asked = RunPlan(
            policies=[UNMANAGED.name, OURS],
            settings=Settings(tariff=tariff),
            model=None,
            tariffs=list(dict.fromkeys([tariff, *(tariffs or [QUOTA])])),
        )
        evaluation = evaluate_recordings(recordings, asked, skipped=skipped, progress=progress, workers=workers)
    names = {each.name for each in recordings}
    simulated = {turn["reply"] for each in found if each.name in names for turn in each.session["turns"]}
    abandoned = sum(reply.id not in simulated for reply in replies)
    return WhatIf(
        sessions=sum(not each.is_sidechain for each in found),
        agents=sum(each.is_sidechain for each in found),
        replies=len(replies),
        used=used,
        recorded=sum(reply.nanodollars or 0 for reply in replies),
        unpriced=sum(reply.nanodollars is None for reply in replies),
        tariff=tariff,
        evaluation=evaluation,
        unknown=(
            *_name_omissions(read, used_since, len({each.client_name for each in active} & set(managed))),
            *_unknown(found, evaluation, abandoned),
        ),
        skipped=skipped,
    )


def _files(
    paths: Sequence[Path], skip: Callable[[str], None], progress: Callable[[int, int], None]
) -> Iterator[tuple[str, list[TranscriptLine]]]:
    """The name and the lines of each file, the oldest first."""
    files = {file for path in paths for file in (path.rglob("*.jsonl") if path.is_dir() else [path])}
    for number, file in enumerate(sorted(files, key=_age)):
        progress(number, len(files))
        try:
            lines = list(lines_of(file))
        except OSError as error:
            skip(f"{file} cannot be read: {error.strerror or error}.")
            continue
        for sentence in lines:
            if isinstance(sentence, str):
                skip(sentence)
        yield file.stem, [line for line in lines if isinstance(line, TranscriptLine)]


@attrs.frozen
class FoundMisses:
    """The reads of each conversation, by its name. ``left_out`` are sentences about omitted ones."""

    sessions: dict[str, list[RecordedReading]]
    left_out: Sequence[str]


def find_misses(
    paths: Sequence[Path],
    *,
    since: str,
    skip: Callable[[str], None],
    progress: Callable[[int, int], None],
    managed: Collection[str] = (),
) -> FoundMisses:
    """The reads of the conversations in transcripts and recordings that were active after ``since``. ``managed`` as in
    ``what_if``.
    """
    found: dict[str, list[RecordedReading]] = {}
    left_out: dict[str, list[str]] = {}
    uncounted = 0
    seen: set[str] = set()

    def add(name: str, session: Mapping[str, Any], requests: Sequence[RecordedRequest], kind: str) -> None:
        nonlocal uncounted
        if not requests:
            left_out.setdefault("whose requests have no token counts", []).append(name)
            return
        uncounted += len(session["turns"]) - len(requests)
        found[name if name not in found else f"{name} ({len(found) + 1})"] = list(read_recorded(requests, kind))

    for name, lines in _files(paths, skip, progress):
        for line in lines:
            if isinstance(line.value.get("turns"), list):
                try:
                    session = recording(line.where, line.value)
                except Unreadable as error:
                    skip(f"{line.where}: {error}.")
                    continue
                if not (times := [at for turn in line.value["turns"] if (at := turn.get("ts"))]) or max(times) >= since:
                    add(session.name, line.value, requests_of(line.value), BranchKind.MAIN.value)
                else:
                    left_out.setdefault(f"last used before {since[:10]}", []).append(session.name)
        for each in conversations_of(name, lines, seen):
            if each.client_name in managed:
                left_out.setdefault("already managed", []).append(each.name)
            elif not each.is_used_since(since):
                when = f"last used before {since[:10]}" if each.times else "whose records have no times"
                left_out.setdefault(when, []).append(each.name)
            else:
                kind = BranchKind.AGENT if each.is_sidechain else BranchKind.MAIN
                counts = {reply.id: (reply.model, reply.used, reply.terms) for reply in each.replies}
                add(each.name, each.session, requests_of(each.session, counts), kind.value)
    sentences = [
        f"{plural(len(names), 'session')} left out, {why}: {', '.join(names[:LINES_NAMED])}"
        + (f" and {len(names) - LINES_NAMED} more." if len(names) > LINES_NAMED else ".")
        for why, names in left_out.items()
    ]
    if uncounted:
        sentences.append(f"{plural(uncounted, 'request')} of other sessions left out, without token counts.")
    return FoundMisses(found, sentences)


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)


def _recordings(found: Sequence[TranscriptConversation], skip: Callable[[str], None]) -> Iterator[Trace]:
    names: Counter[str] = Counter()
    for each in found:
        names[each.name] += 1
        if names[each.name] > 1:  # two files of one name, in folders of their own
            each.name = each.session["name"] = f"{each.name} ({names[each.name]})"
        if each.session["turns"]:
            try:
                yield recording(each.name, each.session)
            except Unreadable as error:
                skip(f"{each.name}: {error}.")


def _name_omissions(
    read: Sequence[TranscriptConversation], used_since: Sequence[TranscriptConversation], managed: int
) -> Iterator[str]:
    """Sentences about what the sums omit: managed sessions, and replies and conversations without a count or time."""
    if managed:  # their transcripts do not show their cost without Mnemosyne
        yield f"{plural(managed, 'session')} left out, already managed: `mnemosyne savings` shows what that saved."
    if untimed := sum(not each.times for each in read):
        yield (
            f"{plural(untimed, 'conversation')} left out: the records have no times, so when"
            f" {'it was' if untimed == 1 else 'they were'} used is not known."
        )
    if uncounted := sum(len(each.uncounted) for each in used_since):
        yield f"{plural(uncounted, 'reply')} left out: the token counts are missing or are not whole numbers."


def _unknown(found: Sequence[TranscriptConversation], evaluation: Evaluation | None, left: int) -> Iterator[str]:
    sessions = evaluation.policies[0].sessions if evaluation is not None else ()
    heads = [session.points[0].fixed for session in sessions if session.points]
    if heads:
        yield (
            "Transcripts omit the system prompt and the tools. Their size is estimated as the counted prompt minus its"
            f" messages: {min(heads):,} to {max(heads):,} tokens, with a median of {round(median(heads)):,}. The size"
            " of the tools alone is known only for recorded sessions (`mnemosyne report`). Reminders and other content"
            " that the client adds are counted with the message next to them."
        )
    if thinking := sum(each.thinking_removed for each in found):
        yield f"The text of {plural(thinking, 'thinking block')} is missing; the size is estimated from the signature."
    if images := sum(each.images for each in found):
        yield f"The tokens of {plural(images, 'image')} are estimated from the size in pixels."
    if agents := sum(each.is_sidechain for each in found):
        yield f"{plural(agents, 'sub-agent conversation')}: each is evaluated as a session of its own."
    if resets := sum(len(each.session["resets"]) for each in found):
        yield (
            f"The client compacted {plural(resets, 'time')}. Transcripts omit that cost; the simulation bills the"
            " prompt once more, and the summary."
        )
    if left:
        yield f"{plural(left, 'recorded reply')} not simulated: the user rewound the conversation past that point."
