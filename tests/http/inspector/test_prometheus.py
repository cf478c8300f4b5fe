"""The page is what Prometheus reads: its text format, version 0.0.4."""

from mnemosyne.http.inspector.prometheus import HistogramSample, Metric, Sample, render

TURNS = Metric("turns_total", "counter", "Turns.", ("outcome",))
PLAIN = Metric("awake", "gauge", "Sessions.")
WAIT = Metric("wait_seconds", "histogram", "Waits.", ("dialect",))


def test_each_metric_has_its_help_its_type_and_its_samples() -> None:
    page = render([(TURNS, [Sample(3, ("finished",)), Sample(0, ("refused",))]), (PLAIN, [Sample(0.5)])])
    assert page == (
        "# HELP turns_total Turns.\n"
        "# TYPE turns_total counter\n"
        'turns_total{outcome="finished"} 3\n'
        'turns_total{outcome="refused"} 0\n'
        "# HELP awake Sessions.\n"
        "# TYPE awake gauge\n"
        "awake 0.5\n"
    )


def test_a_histogram_has_a_bucket_for_each_bound_and_one_for_all() -> None:
    page = render([(WAIT, [HistogramSample((0.5, 1.0), (1, 1, 3), 7.25, ("messages",))])])
    assert page.splitlines()[2:] == [
        'wait_seconds_bucket{dialect="messages",le="0.5"} 1',
        'wait_seconds_bucket{dialect="messages",le="1.0"} 1',
        'wait_seconds_bucket{dialect="messages",le="+Inf"} 3',
        'wait_seconds_sum{dialect="messages"} 7.25',
        'wait_seconds_count{dialect="messages"} 3',
    ]


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    page = render([(TURNS, [Sample(1, ('a"b\\c\nd',))])])
    assert page.splitlines()[2:] == ['turns_total{outcome="a\\"b\\\\c\\nd"} 1']


def test_a_metric_without_samples_is_left_out() -> None:
    assert render([(TURNS, [])]) == ""
