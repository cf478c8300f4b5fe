"""The text format in which Prometheus reads metrics (its version 0.0.4)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import attrs

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@attrs.frozen
class Metric:
    """What is measured, and what that means. ``labels`` are the names of those that its samples have."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


@attrs.frozen
class Sample:
    """One value of a metric, with the values of its labels in their order."""

    value: float
    labels: tuple[str, ...] = ()


@attrs.frozen
class HistogramSample:
    """How many observations were at most each of the ``bounds``, and at last all; and their ``total``."""

    bounds: tuple[float, ...]
    counts: Sequence[int]
    total: float
    labels: tuple[str, ...] = ()


def render(metrics: Iterable[tuple[Metric, Sequence[Sample | HistogramSample]]]) -> str:
    """The page: each metric with its help, its type and its samples. One without samples is left out."""
    return "".join(f"{line}\n" for metric, samples in metrics if samples for line in _lines(metric, samples))


def _lines(metric: Metric, samples: Sequence[Sample | HistogramSample]) -> Iterable[str]:
    yield f"# HELP {metric.name} {metric.meaning}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in samples:
        labels = dict(zip(metric.labels, sample.labels, strict=True))
        if isinstance(sample, Sample):
            yield _line(metric.name, labels, sample.value)
        else:
            yield from _histogram_lines(metric.name, labels, sample)


def _histogram_lines(name: str, labels: Mapping[str, str], sample: HistogramSample) -> Iterable[str]:
    for bound, count in zip((*map(_number, sample.bounds), "+Inf"), sample.counts, strict=True):
        yield _line(f"{name}_bucket", {**labels, "le": bound}, count)
    yield _line(f"{name}_sum", labels, sample.total)
    yield _line(f"{name}_count", labels, sample.counts[-1])


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    shown = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return repr(value)
