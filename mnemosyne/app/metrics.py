"""What a server tells a monitor at ``/-/metrics``: each metric, and where its value comes from.

All of it is in the memory of the process, but for how far the worker is behind, which the database says.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from mnemosyne import __version__
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.app.supervising import Supervisor
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.http.gateway import Gateway
from mnemosyne.http.inspector.prometheus import HistogramSample, Metric, Sample, render
from mnemosyne.http.traffic import FIRST_BYTE_BOUNDS
from mnemosyne.services.tally import RecordTally

INFO = Metric("mnemosyne_info", "gauge", "Always 1; says the version.", ("version",))
REPLIES = Metric(
    "mnemosyne_replies_total",
    "counter",
    "Replies that began for a client, by dialect (other: no turn) and status.",
    ("dialect", "status"),
)
ERRORS = Metric("mnemosyne_errors_total", "counter", "Requests that got no reply or no whole one, by kind.", ("kind",))
FIRST_BYTE = Metric(
    "mnemosyne_first_byte_seconds",
    "histogram",
    "From a request that came whole to the first byte of its reply.",
    ("dialect",),
)
REQUEST_BYTES = Metric("mnemosyne_request_bytes_total", "counter", "Bytes of the bodies that clients sent.")
REPLY_BYTES = Metric("mnemosyne_reply_bytes_total", "counter", "Bytes of the bodies that clients were sent.")
RELAYS = Metric("mnemosyne_relays_running", "gauge", "Requests that are under way.")
UNRECORDED = Metric(
    "mnemosyne_unrecorded_requests_total",
    "counter",
    "Requests in no dialect that is known, passed on without a record.",
)
TURNS = Metric(
    "mnemosyne_turns_total",
    "counter",
    "Turns on record that ended: finished, refused (the reply was an error) or interrupted.",
    ("outcome",),
)
MANAGED = Metric("mnemosyne_managed_turns_total", "counter", "Turns for which not the client's own bytes went.")
GAP_TURNS = Metric("mnemosyne_gap_turns_total", "counter", "Turns that went through and are not on record.")
ROUNDS = Metric("mnemosyne_rounds_total", "counter", "Requests to the provider that turns took.")
TOKENS = Metric(
    "mnemosyne_tokens_total",
    "counter",
    "Tokens that the provider counted, by model: input (not from its cache), output, cache_read, cache_write.",
    ("model", "kind"),
)
COST = Metric(
    "mnemosyne_cost_dollars_total",
    "counter",
    "What turns cost at list prices, by model; models without a known price are left out.",
    ("model",),
)
SAVED = Metric(
    "mnemosyne_saved_dollars",
    "gauge",
    "What managing saved at list prices since the server started; below 0 if it cost more.",
)
APPENDS = Metric("mnemosyne_appends_total", "counter", "Appends to the log: durable or failed.", ("result",))
EVENTS = Metric("mnemosyne_appended_events_total", "counter", "Events in durable appends.")
APPENDED_BYTES = Metric("mnemosyne_appended_bytes_total", "counter", "Bytes of durable appends before compression.")
WAITING = Metric("mnemosyne_appends_waiting", "gauge", "Appends that wait to be written.")
WAITING_BYTES = Metric("mnemosyne_appends_waiting_bytes", "gauge", "Their bytes.")
WAITED = Metric("mnemosyne_append_waiting_seconds", "gauge", "How long the first of them has waited; 0 if none does.")
AWAKE = Metric("mnemosyne_sessions_awake", "gauge", "Sessions that are held in memory.")
WORKER = Metric("mnemosyne_worker_state", "gauge", "1 for the state in which the worker is.", ("state",))
RESTARTS = Metric("mnemosyne_worker_restarts_total", "counter", "How often the worker was started again.")
BEHIND = Metric("mnemosyne_events_behind", "gauge", "Events on record that are not in every read model yet.")
SECONDS_BEHIND = Metric("mnemosyne_seconds_behind", "gauge", "The age of the oldest of them.")

METRICS = (
    *(INFO, REPLIES, ERRORS, FIRST_BYTE, REQUEST_BYTES, REPLY_BYTES, RELAYS, UNRECORDED),
    *(TURNS, MANAGED, GAP_TURNS, ROUNDS, TOKENS, COST, SAVED),
    *(APPENDS, EVENTS, APPENDED_BYTES, WAITING, WAITING_BYTES, WAITED),
    *(AWAKE, WORKER, RESTARTS, BEHIND, SECONDS_BEHIND),
)
"""All of them, in the order of the page."""

Found = Iterator[tuple[Metric, Sequence[Sample | HistogramSample]]]


@attrs.frozen(kw_only=True)
class ServerMetrics:
    """The parts of a server that are asked."""

    gateway: Gateway
    tally: RecordTally
    journal: GroupJournal
    registry: SessionRegistry
    supervisor: Supervisor

    async def page(self) -> str:
        """The metrics as text."""
        worker = await self.supervisor.describe()
        return render(
            [
                (INFO, [Sample(1, (__version__,))]),
                *self._traffic(),
                *self._record(),
                *self._log(),
                (AWAKE, [Sample(self.registry.awake)]),
                *_worker(worker),
            ]
        )

    def _traffic(self) -> Found:
        traffic = self.gateway.traffic
        yield (
            REPLIES,
            [Sample(count, (name, str(status))) for (name, status), count in sorted(traffic.replies.items())],
        )
        yield ERRORS, [Sample(count, (kind,)) for kind, count in sorted(traffic.errors.items())]
        waits = sorted(traffic.first_byte.items())
        yield FIRST_BYTE, [HistogramSample(FIRST_BYTE_BOUNDS, each.cumulative, each.seconds, (n,)) for n, each in waits]
        yield REQUEST_BYTES, [Sample(traffic.request_bytes)]
        yield REPLY_BYTES, [Sample(traffic.reply_bytes)]
        yield RELAYS, [Sample(self.gateway.progress.running)]
        yield UNRECORDED, [Sample(self.gateway.unrecorded.total())]

    def _record(self) -> Found:
        tally, balances = self.tally, sorted(self.tally.balances.items())
        yield (
            TURNS,
            [Sample(tally.turns[outcome], (outcome,)) for outcome in ("finished", "refused", "interrupted")],
        )
        yield MANAGED, [Sample(sum(each.managed for _, each in balances))]
        yield GAP_TURNS, [Sample(tally.gap_turns)]
        yield ROUNDS, [Sample(tally.rounds)]
        yield (
            TOKENS,
            [
                Sample(count, (model, kind))
                for model, each in balances
                for kind, count in (
                    ("input", each.actual.input),
                    ("output", each.actual.output),
                    ("cache_read", each.actual.read),
                    ("cache_write", each.actual.write_5m + each.actual.write_1h),
                )
            ],
        )
        priced = [(model, each) for model, each in balances if each.is_priced]
        yield COST, [Sample(each.nanodollars / NANODOLLARS, (model,)) for model, each in priced]
        yield SAVED, [Sample(sum(each.nanodollars_saved for _, each in priced) / NANODOLLARS)]

    def _log(self) -> Found:
        tally, waiting = self.tally, self.journal.waiting
        yield APPENDS, [Sample(tally.appends, ("durable",)), Sample(tally.failed_appends, ("failed",))]
        yield EVENTS, [Sample(tally.events)]
        yield APPENDED_BYTES, [Sample(tally.bytes)]
        yield WAITING, [Sample(waiting.appends)]
        yield WAITING_BYTES, [Sample(waiting.bytes)]
        yield WAITED, [Sample(round(waiting.seconds, 1))]


def _worker(told: Mapping[str, Any]) -> Found:
    yield WORKER, [Sample(1, (told["state"],))]
    yield RESTARTS, [Sample(told["restarts"])]
    for metric, name in ((BEHIND, "events_behind"), (SECONDS_BEHIND, "seconds_behind")):
        yield metric, [Sample(told[name])] if name in told else []
