"""The metrics page at ``/-/metrics``, in Prometheus text format 0.0.4.

All values are in the memory of the process, except the worker's lag and the missed tokens, which are read from the
database.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs
import trio

from mnemosyne import __version__
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.adapters.postgres.journal import GroupJournal
from mnemosyne.adapters.postgres.reconnecting_log import ReconnectingLog
from mnemosyne.app.process_link import ServerProcess, SharedWorker
from mnemosyne.app.supervising import LAG_SECONDS, Supervisor
from mnemosyne.domain.cost.prices import NANODOLLARS
from mnemosyne.errors import LogFailed
from mnemosyne.http.gateway import Gateway
from mnemosyne.services.tally import RecordTally

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

LIBRARY = "prometheus_client"
"""Takes 50 ms to import, so it is imported only on the first request for metrics, outside the event loop."""


@attrs.frozen
class Metric:
    """A metric's definition; ``labels`` are the label names of its samples."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


METRICS = (
    Metric("mnemosyne_info", "gauge", "Always 1; the label has the version.", ("version",)),
    Metric(
        "mnemosyne_replies_total",
        "counter",
        "Replies started, by dialect (other: no turn) and status.",
        ("dialect", "status"),
    ),
    Metric("mnemosyne_errors_total", "counter", "Requests without a complete reply, by kind.", ("kind",)),
    Metric(
        "mnemosyne_first_byte_seconds",
        "histogram",
        "Time from a complete request to the first byte of its reply.",
        ("dialect",),
    ),
    Metric("mnemosyne_request_bytes_total", "counter", "Bytes of request bodies from clients."),
    Metric("mnemosyne_reply_bytes_total", "counter", "Bytes of reply bodies to clients."),
    Metric("mnemosyne_relays_running", "gauge", "Requests in progress."),
    Metric(
        "mnemosyne_unrecorded_requests_total",
        "counter",
        "Requests in an unknown dialect, forwarded unrecorded.",
    ),
    Metric(
        "mnemosyne_turns_total",
        "counter",
        "Recorded turns that ended: finished, refused (the reply was an error) or interrupted.",
        ("outcome",),
    ),
    Metric("mnemosyne_managed_turns_total", "counter", "Turns sent with a body other than the client's."),
    Metric("mnemosyne_gap_turns_total", "counter", "Turns that went through unrecorded."),
    Metric("mnemosyne_policy_failures_total", "counter", "Requests for which a policy gave no usable plan."),
    Metric("mnemosyne_rounds_total", "counter", "Requests to the provider."),
    Metric("mnemosyne_fidelity_changes_total", "counter", "Changes of an object's fidelity, by the new one.", ("to",)),
    Metric("mnemosyne_faults_total", "counter", "Page faults: explicit, micro or implicit.", ("kind",)),
    Metric(
        "mnemosyne_tokens_total",
        "counter",
        "The provider's token counts by model: input (not cached), output, cache_read, cache_write.",
        ("model", "kind"),
    ),
    Metric(
        "mnemosyne_missed_tokens_total",
        "counter",
        "Tokens that should have been read from the cache, by cause and culprit, in all sessions of the database.",
        ("cause", "culprit"),
    ),
    Metric(
        "mnemosyne_cost_dollars_total",
        "counter",
        "Cost of turns at list prices, by model; models without a known price are left out.",
        ("model",),
    ),
    Metric("mnemosyne_helper_dollars_total", "counter", "Cost of helper models."),
    Metric(
        "mnemosyne_saved_dollars",
        "gauge",
        "Savings by managing at list prices since the server started, less the cost of helpers; negative for a loss.",
    ),
    Metric("mnemosyne_appends_total", "counter", "Appends to the log: durable or failed.", ("result",)),
    Metric("mnemosyne_appended_events_total", "counter", "Events in durable appends."),
    Metric("mnemosyne_appended_bytes_total", "counter", "Bytes of durable appends before compression."),
    Metric("mnemosyne_appends_waiting", "gauge", "Queued appends."),
    Metric("mnemosyne_appends_waiting_bytes", "gauge", "Bytes of queued appends."),
    Metric("mnemosyne_append_waiting_seconds", "gauge", "Age of the oldest queued append; 0 for none."),
    Metric("mnemosyne_sessions_awake", "gauge", "Sessions in memory."),
    Metric("mnemosyne_sessions_in_zone", "gauge", "Sessions in memory by how full their last window was.", ("zone",)),
    Metric("mnemosyne_objects", "gauge", "Objects of the last windows of sessions in memory.", ("fidelity",)),
    Metric("mnemosyne_object_tokens", "gauge", "Estimated tokens of these objects as shown.", ("fidelity",)),
    Metric("mnemosyne_object_tokens_in_full", "gauge", "Estimated tokens of these objects in full.", ("fidelity",)),
    Metric("mnemosyne_usable_tokens", "gauge", "Tokens that objects may take in these windows."),
    Metric("mnemosyne_worker_state", "gauge", "1 for the worker's current state.", ("state",)),
    Metric("mnemosyne_worker_restarts_total", "counter", "Restarts of the worker."),
    Metric("mnemosyne_events_behind", "gauge", "Recorded events that some read model lacks."),
    Metric("mnemosyne_seconds_behind", "gauge", "Age of the oldest such event."),
)
"""All metrics, in the order of the page."""

Values = dict[str, Any]
"""Values by metric name: a number, numbers by label values, or buckets and sum of a histogram."""


@attrs.frozen(kw_only=True)
class ServerMetrics:
    """Collects the metrics from the parts of a server."""

    gateway: Gateway
    tally: RecordTally
    journal: GroupJournal
    registry: SessionRegistry
    supervisor: Supervisor | SharedWorker
    event_log: ReconnectingLog

    member: ServerProcess | None = None
    """This process, if it is one of several."""

    async def page(self) -> str:
        await trio.to_thread.run_sync(import_module, LIBRARY)
        from prometheus_client import generate_latest

        common = {"mnemosyne_info": {(__version__,): 1}, **await self._worker(), **await self._cache()}
        if self.member is None:
            return generate_latest(_Page({**self.measure(), **common})).decode()
        processes = await self.member.gather_values()
        return generate_latest(_Page(common, {str(number): each for number, each in processes.items()})).decode()

    def measure(self) -> Values:
        """The values of this process alone."""
        return {**self._traffic(), **self._record(), **self._log()}

    def _traffic(self) -> Values:
        traffic = self.gateway.traffic
        return {
            "mnemosyne_replies_total": {(name, str(status)): n for (name, status), n in traffic.replies.items()},
            "mnemosyne_errors_total": {(kind,): count for kind, count in traffic.errors.items()},
            "mnemosyne_first_byte_seconds": {
                (dialect,): (waits.buckets, waits.seconds) for dialect, waits in traffic.first_byte.items()
            },
            "mnemosyne_request_bytes_total": traffic.request_bytes,
            "mnemosyne_reply_bytes_total": traffic.reply_bytes,
            "mnemosyne_relays_running": self.gateway.progress.running - self.gateway.progress.passed_on,
            "mnemosyne_unrecorded_requests_total": self.gateway.unrecorded.total(),
        }

    def _record(self) -> Values:
        tally, balances = self.tally, self.tally.balances
        priced = {(model,): balance for model, balance in balances.items() if balance.is_priced}
        tokens = {}
        for model, balance in balances.items():
            used = balance.actual
            tokens[model, "input"], tokens[model, "output"] = used.input, used.output
            tokens[model, "cache_read"], tokens[model, "cache_write"] = used.read, used.write_5m + used.write_1h
        return {
            "mnemosyne_turns_total": {(how,): tally.turns[how] for how in ("finished", "refused", "interrupted")},
            "mnemosyne_managed_turns_total": sum(balance.managed for balance in balances.values()),
            "mnemosyne_gap_turns_total": tally.gap_turns,
            "mnemosyne_policy_failures_total": tally.policy_failures,
            "mnemosyne_rounds_total": tally.rounds,
            "mnemosyne_fidelity_changes_total": {(each.label,): count for each, count in tally.fidelities.items()},
            "mnemosyne_faults_total": {(kind.value,): count for kind, count in tally.faults.items()},
            "mnemosyne_tokens_total": tokens,
            "mnemosyne_cost_dollars_total": {
                labels: balance.nanodollars / NANODOLLARS for labels, balance in priced.items()
            },
            "mnemosyne_helper_dollars_total": tally.helpers / NANODOLLARS,
            "mnemosyne_saved_dollars": (sum(each.nanodollars_saved for each in priced.values()) - tally.helpers)
            / NANODOLLARS,
        }

    def _log(self) -> Values:
        tally, waiting = self.tally, self.journal.waiting
        *by_fidelity, usable = self.registry.sum_windows()
        names = ("objects", "object_tokens", "object_tokens_in_full")
        return {
            "mnemosyne_appends_total": {("durable",): tally.appends, ("failed",): tally.failed_appends},
            "mnemosyne_appended_events_total": tally.events,
            "mnemosyne_appended_bytes_total": tally.bytes,
            "mnemosyne_appends_waiting": waiting.appends,
            "mnemosyne_appends_waiting_bytes": waiting.bytes,
            "mnemosyne_append_waiting_seconds": round(waiting.seconds, 1),
            "mnemosyne_sessions_awake": self.registry.awake,
            "mnemosyne_sessions_in_zone": {(zone,): count for zone, count in self.registry.count_zones().items()},
            **{
                f"mnemosyne_{name}": {(label,): count for label, count in counts.items()}
                for name, counts in zip(names, by_fidelity, strict=True)
            },
            "mnemosyne_usable_tokens": usable,
        }

    async def _worker(self) -> Values:
        """Return the worker's values; its lag is missing while the database does not answer."""
        worker = await self.supervisor.describe()
        behind = ("events_behind", "seconds_behind")
        return {
            "mnemosyne_worker_state": {(worker["state"],): 1},
            "mnemosyne_worker_restarts_total": worker["restarts"],
            **{f"mnemosyne_{name}": worker[name] for name in behind if name in worker},
        }

    async def _cache(self) -> Values:
        with trio.move_on_after(LAG_SECONDS), suppress(LogFailed):
            return {"mnemosyne_missed_tokens_total": await self.event_log.count_missed()}
        return {}


@attrs.frozen
class _Page:
    """Implements ``Collector`` of the Prometheus library. The values of ``processes`` get a label for their process."""

    values: Values
    processes: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    def collect(self) -> "Iterator[Family]":
        from prometheus_client import core

        families = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        for metric in METRICS:
            of_processes: dict[tuple[str, ...], Any] = {
                (name,): each[metric.name] for name, each in self.processes.items() if metric.name in each
            }
            groups = of_processes or {(): self.values.get(metric.name, {})}
            groups = {process: value for process, value in groups.items() if value != {}}
            if not groups:
                continue
            labels = (*(("process",) if of_processes else ()), *metric.labels)
            family: Any = families[metric.kind](metric.name, metric.meaning, labels=labels)
            for process, value in sorted(groups.items()):
                for own, number in sorted(value.items()) if metric.labels else [((), value)]:
                    family.add_metric((*process, *own), *(number if metric.kind == "histogram" else [number]))
            yield family
