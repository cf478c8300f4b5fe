"""Daily spending of the helper models as recorded, and their work. The cost of a day's turns is that of its billed
replies, at the prices of the time of recording.
"""

from collections.abc import Sequence

from mnemosyne.domain.objects.events import ObjectSummarized
from mnemosyne.domain.ports import Recorded
from mnemosyne.domain.session.budget import DAY
from mnemosyne.domain.session.input_events import HelperAsked, HelperWorked
from mnemosyne.projections.projection import Merge, Projection, Query, Row, Table, Type, row_of, text

SPENT = Table(
    "spent",
    key={"day": Type.INTEGER, "stream": Type.UUID, "version": Type.INTEGER},  # days since 1970, in UTC
    columns={"at": Type.INTEGER, "helpers": Type.INTEGER},  # nanodollars
)

WORK = Table(
    "work",
    key={"stream": Type.UUID, "version": Type.INTEGER},
    columns={
        "day": Type.INTEGER,
        "task": Type.TEXT,
        "helper": Type.TEXT,
        "accepted": Type.BOOLEAN,
        "cached": Type.BOOLEAN,
        "reason": Type.TEXT,  # why nothing was accepted
        "read": Type.INTEGER,  # tokens
        "written": Type.INTEGER,  # tokens
        "nanodollars": Type.INTEGER,
    },
)

CACHE = Table(
    "cache",
    key={"key": Type.TEXT},  # hexadecimal
    columns={"stream": Type.UUID, "version": Type.INTEGER},  # the event of the last accepted answer
)


def changes(recorded: Recorded[object]) -> Sequence[Merge]:
    """Return the rows of a helper's cost and work."""
    event = recorded.envelope.event
    match event:
        case ObjectSummarized():
            return _merge_spent(recorded, event)
        case HelperAsked():
            work = _merge_work(recorded, event, "answer", None if event.sentences else event.why, cached=False)
            return (*_merge_spent(recorded, event), work)
        case HelperWorked():
            work = _merge_work(recorded, event, event.task, "; ".join(event.rejected) or None, cached=event.cached)
            spent = _merge_spent(recorded, event)
            if event.rejected:
                return (*spent, work)
            source: Row = {"stream": recorded.stream, "version": recorded.version}
            return (*spent, work, Merge("cache", (event.key.hex(),), source))
        case _:
            return ()


def _merge_work(
    recorded: Recorded[object], event: HelperAsked | HelperWorked, task: str, reason: str | None, *, cached: bool
) -> Merge:
    columns = row_of(event, "read", "written", "nanodollars")
    columns |= {"day": event.at // DAY, "task": task, "helper": event.helper, "cached": cached}
    columns |= {"accepted": reason is None, "reason": text(reason)}
    return Merge("work", (recorded.stream, recorded.version), columns)


def _merge_spent(recorded: Recorded[object], event: ObjectSummarized | HelperAsked | HelperWorked) -> Sequence[Merge]:
    if not event.nanodollars:
        return ()
    columns = {"at": event.at, "helpers": event.nanodollars}
    return (Merge("spent", (event.at // DAY, recorded.stream, recorded.version), columns),)


ON_DAY = Query(
    "on_day",
    f"""select
    (select coalesce(sum(nanodollars), 0)::bigint from mnemosyne.priced_replies()
        where at >= %(day)s::bigint * {DAY} and at < (%(day)s::bigint + 1) * {DAY}) as turns,
    (select coalesce(sum(helpers), 0)::bigint from mnemosyne.budget_spent where day = %(day)s) as helpers""",
)
"""Also reads the tables of the read model of usage."""

CACHED = Query(
    "cached",
    "select stream, version from mnemosyne.budget_cache where key = %(key)s",
)

HELPER_WORK = Query(
    "helper_work",
    """select task, accepted, cached, reason, count(*)::bigint as times, sum(nanodollars)::bigint as nanodollars,
    coalesce(sum(read), 0)::bigint as read, coalesce(sum(written), 0)::bigint as written
from mnemosyne.budget_work
where day >= %(since)s and (%(stream)s::uuid is null or stream = %(stream)s)
group by 1, 2, 3, 4
order by 1, 2 desc, 3, 5 desc, 4""",
)

LATEST_WORK = Query(
    "latest_work",
    """select stream, task, max(version) as version
from mnemosyne.budget_work
where accepted and task = any(%(tasks)s) and stream = any(%(streams)s)
group by 1, 2""",
)

HELPERS = Query(
    "helpers",
    """select stream, at / 900000000 * 900000000 as quarter, sum(helpers)::bigint as helpers
from mnemosyne.budget_spent
where helpers > 0 and at >= %(since)s and (%(streams)s::uuid[] is null or stream = any(%(streams)s))
group by 1, 2""",
)

HELPERS_BILLED = Query(
    "helpers_billed",
    """select stream = %(stream)s as own, day >= %(day)s as today, sum(helpers)::bigint as helpers
from mnemosyne.budget_spent
where helpers > 0 and (stream = %(stream)s or day >= %(day)s) and stream in (
    select stream from mnemosyne.timeline_sessions where stream = %(stream)s or tenant = %(tenant)s
)
group by 1, 2""",
)

HELPERS_OF = Query(
    "helpers_of",
    "select version, helpers from mnemosyne.budget_spent where helpers > 0 and stream = %(stream)s order by version",
)

BUDGET = Projection(
    name="budget",
    version=7,
    tables=(SPENT, WORK, CACHE),
    changes=changes,
    queries=(ON_DAY, HELPER_WORK, LATEST_WORK, CACHED, HELPERS, HELPERS_BILLED, HELPERS_OF),
)
