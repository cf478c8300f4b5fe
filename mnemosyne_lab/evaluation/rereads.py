"""What compactions cost in files that are read again: recorded ones are an experiment that nature made."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction

import attrs

from mnemosyne.domain.objects.kinds import KINDS
from mnemosyne.domain.window.keeping import WRITTEN
from mnemosyne_lab.evaluation.results import STRETCH, Rereads
from mnemosyne_lab.evaluation.sizing import Sized, SizedItem


@attrs.frozen
class ReadAgain:
    """In a stretch of requests so many ``files`` were read that had been read before, in so many ``tokens``."""

    after_compaction: bool
    files: int
    tokens: int


def list_read_again(sized: Sized) -> list[ReadAgain]:
    """Of the stretches after each compaction of a session, and of all that lie apart from these."""
    reads = sorted(filter(_is_read, sized.objects), key=lambda each: each.item.born)
    compactions = [reset.turn for reset in sized.trace.resets]
    last = len(sized.trace.requests)
    found = [_in_stretch(reads, turn, after_compaction=True) for turn in compactions]
    elsewhere = (
        turn
        for turn in range(1 + STRETCH, last - STRETCH + 2, STRETCH)
        if not any(turn - STRETCH < each < turn + STRETCH for each in compactions)
    )
    return [*found, *(_in_stretch(reads, turn, after_compaction=False) for turn in elsewhere)]


def _is_read(each: SizedItem) -> bool:
    item = each.item
    return KINDS[item.kind].is_file and item.source_key is not None and not WRITTEN & set(item.tags)


def _in_stretch(reads: Sequence[SizedItem], turn: int, *, after_compaction: bool) -> ReadAgain:
    born = [each.item.born for each in reads]
    first, end = bisect_left(born, turn), bisect_left(born, turn + STRETCH)
    before = {each.item.source_key for each in reads[:first]}
    again = [each for each in reads[first:end] if each.item.source_key in before]
    files = {each.item.source_key for each in again}
    return ReadAgain(after_compaction, len(files), sum(each.tokens[0] for each in again))


def compare_rereads(sessions: Sequence[Sequence[ReadAgain]]) -> Rereads | None:
    """What all sessions say together; ``least`` and ``most`` leave each session out once. None without a compaction."""
    whole = _compare(sessions)
    if whole is None:
        return None
    others = filter(None, (_compare([*sessions[:number], *sessions[number + 1 :]]) for number in range(len(sessions))))
    more = [each.files - each.files_elsewhere for each in (whole, *others)]
    return attrs.evolve(whole, least=min(more), most=max(more))


def _compare(sessions: Sequence[Sequence[ReadAgain]]) -> Rereads | None:
    after, elsewhere = (list(_of(sessions, after_compaction=each)) for each in (True, False))
    if not after or not elsewhere:
        return None
    files, tokens = _means(after)
    files_elsewhere, tokens_elsewhere = _means(elsewhere)
    return Rereads(
        compactions=len(after),
        files=files,
        files_elsewhere=files_elsewhere,
        tokens=tokens,
        tokens_elsewhere=tokens_elsewhere,
        least=files - files_elsewhere,
        most=files - files_elsewhere,
    )


def _of(sessions: Sequence[Sequence[ReadAgain]], *, after_compaction: bool) -> Iterator[ReadAgain]:
    """Those of sessions that were compacted: others work otherwise."""
    for found in sessions:
        if any(each.after_compaction for each in found):
            yield from (each for each in found if each.after_compaction is after_compaction)


def _means(found: Sequence[ReadAgain]) -> tuple[Fraction, Fraction]:
    return Fraction(sum(each.files for each in found), len(found)), Fraction(
        sum(each.tokens for each in found), len(found)
    )
