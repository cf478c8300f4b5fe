"""Every token that a recorded session did not read from the cache has a cause, as far as the record holds one."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.cost.cache_misses import MissCause, Unread
from mnemosyne.services.cache_misses import cause_text
from mnemosyne_lab.evaluation.cache_misses import RecordedReading, read_recorded, requests_of, sum_recorded
from mnemosyne_lab.evaluation.what_if import find_misses

HEAD = 20_000
WORDS = "The parser keeps the offsets of each block, so that a body can be cut between two of them. " * 20
Json = dict[str, Any]


def session(
    *turns: tuple[str, int, int], resets: tuple[Json, ...] = (), thinks: tuple[int, ...] = (), **more: Any
) -> Json:
    """A recorded session whose requests were sent at these times, with these reads and writes. The replies to the
    turns in ``thinks`` contain thinking.
    """
    messages: list[Json] = []
    for number in range(2 * len(turns)):
        block: Json = {"type": "text", "text": f"{number} {WORDS}"}
        if number == 2:
            block = {"type": "tool_result", "tool_use_id": "t", "content": WORDS}
        thought = [{"type": "thinking", "thinking": "", "signature": "s"}] if (number + 1) / 2 in thinks else []
        messages.append({"role": ("user", "assistant")[number % 2], "content": [*thought, block]})
    recorded = [
        {
            "msg": 2 * number + 1,
            "ts": f"2026-11-20T{at}",
            "usage": {"input": 0, "cache_read": read, "cache_write": write},
        }
        for number, (at, read, write) in enumerate(turns)
    ]
    return {"name": "s", "model": "claude-opus-4-5", "messages": messages, "turns": recorded, "resets": resets, **more}


def causes(recorded: Json) -> dict[int, list[MissCause]]:
    return {each.turn: [cause.cold.cause for cause in each.causes] for each in read(recorded) if each.causes}


def read(recorded: Json) -> list[RecordedReading]:
    return list(read_recorded(requests_of(recorded), "main"))


def test_expiry_is_known_from_the_times_and_a_miss_in_time_is_not_on_record() -> None:
    found = causes(
        session(
            ("10:00:00Z", 0, HEAD),
            ("10:01:00Z", HEAD, 800),
            ("10:10:00Z", 0, HEAD + 1600),
            ("10:11:00Z", HEAD + 1600, 800),
            ("10:12:00Z", 0, HEAD + 3200),
        )
    )
    assert found == {1: [MissCause.START], 3: [MissCause.EXPIRY], 5: [MissCause.UNRECORDED]}


def test_thinking_changed_if_all_replies_on_one_side_of_a_miss_lack_it() -> None:
    turns = [
        ("10:00:00Z", 0, HEAD),
        ("10:01:00Z", HEAD, 800),
        ("10:02:00Z", HEAD - 900, 2500),
        ("10:03:00Z", HEAD + 1600, 800),
    ]
    for thinks in ((1, 2), (3, 4), (1, 4)):  # with (1, 4), the model chose not to think at turn 2 and 3
        found = read(session(*turns, thinks=thinks))[2].causes
        is_setting = thinks != (1, 4)
        assert [each.cold.cause is MissCause.SETTING for each in found] == [is_setting], thinks
        assert cause_text(found[0].cold) == (
            "the client changed thinking" if is_setting else "unrecorded: reads ended before the recorded messages"
        )


def test_provider_is_the_cause_if_the_next_request_reads_the_missed_entry() -> None:
    turns = [
        ("10:00:00Z", 0, HEAD),
        ("10:01:00Z", HEAD, 800),
        ("10:02:00Z", HEAD - 900, 2500),
        ("10:03:00Z", HEAD + 800, 1600),
        ("10:04:00Z", HEAD + 2400, 800),
    ]
    assert causes(session(*turns)) == {1: [MissCause.START], 3: [MissCause.PROVIDER], 4: [MissCause.PROVIDER]}
    turns[2] = ("10:02:00Z", 0, HEAD + 1600)  # without the head: another model or other tools may have been sent
    assert causes(session(*turns)) == {1: [MissCause.START], 3: [MissCause.UNRECORDED], 4: [MissCause.UNRECORDED]}


@pytest.mark.parametrize(
    ("read_tokens", "place"), [(0, Unread.ALL), (HEAD - 900, Unread.PREFIX), (HEAD + 6400, Unread.MESSAGES)]
)
def test_an_unrecorded_cause_names_the_place_where_the_reads_ended(read_tokens: int, place: Unread) -> None:
    prompts = [("10:00:00Z", 0, HEAD), *((f"10:{at:02}:00Z", HEAD + 800 * (at - 1), 800) for at in range(1, 11))]
    *_, last = read(session(*prompts, ("10:11:00Z", read_tokens, HEAD + 8800 - read_tokens)))
    (found,) = last.causes
    assert (found.cold.cause, found.cold.name) == (MissCause.UNRECORDED, place.value)
    assert cause_text(found.cold).startswith("unrecorded: ")


def test_reads_as_long_as_a_first_request_s_ended_after_tools_and_system_prompt() -> None:
    for first, place in ((HEAD - 900, Unread.HEAD), (HEAD - 1_000, Unread.PREFIX), (0, Unread.PREFIX)):
        turns = ("10:00:00Z", first, HEAD - first), ("10:01:00Z", HEAD, 800), ("10:02:00Z", HEAD - 900, 2_500)
        *_, last = read(session(*turns))
        assert [each.cold.name for each in last.causes] == [place.value]


def test_what_several_misses_read_is_the_head_and_a_head_of_another_size_was_changed() -> None:
    """Thinking makes the head of one model longer, also where no reply shows its thinking."""
    sizes = {1: HEAD - 900, 3: HEAD - 900, 5: HEAD - 900, 7: HEAD - 917, 8: HEAD - 900, 9: HEAD - 917, 11: HEAD + 2_500}
    turns, entry = [], 0
    for number in range(1, 12):
        size = HEAD + 800 * number
        reads = sizes.get(number, entry)
        turns.append((f"10:{number:02}:00Z", reads, size - reads))
        entry = size
    found = {each.turn: each.causes[0].cold.name for each in read(session(*turns)) if each.causes}
    heads = {3: "head", 5: "head", 7: "other head", 8: "other head", 9: "other head"}
    assert found == {1: "main", **heads, 11: "messages"}
    recorded = session(*turns, model="claude-opus-4-6")
    thinking = {each.turn: each.causes[0].cold.name for each in read(recorded) if each.causes}
    assert thinking == {**found, **dict.fromkeys((7, 8, 9), "thinking")}


def test_a_request_that_reads_an_older_entry_has_the_settings_of_that_one() -> None:
    turns = [("10:00:00Z", 9_000, HEAD), ("10:01:00Z", HEAD + 9_000, 800), ("10:02:00Z", 0, HEAD + 9_900)]
    found = read(session(*turns, ("10:03:00Z", HEAD + 9_800, 900), thinks=(1,)))
    assert [each.causes[0].cold.name for each in found if each.causes] == ["main", "thinking", "thinking"]


def test_without_times_only_a_complete_miss_can_be_expiry() -> None:
    turns = [("10:00:00Z", 0, HEAD), ("10:01:00Z", HEAD - 900, 1700), ("10:02:00Z", 0, HEAD + 1600)]
    untimed = session(*turns, system=WORDS)
    for turn in untimed["turns"]:
        turn["ts"] = None
    assert causes(untimed) == {1: [MissCause.START], 2: [MissCause.PROVIDER], 3: [MissCause.UNRECORDED]}
    assert cause_text(read(untimed)[2].causes[0].cold).endswith("the record has no times")


def test_a_provider_that_counts_no_writes_counts_its_reads_among_the_input() -> None:
    recorded = session(("10:00:00Z", 0, 0), ("10:01:00Z", 0, 0), model="gemini-3-pro")
    for turn, reads in zip(recorded["turns"], (0, HEAD), strict=True):
        turn["usage"] = {"input": HEAD + 10, "cache_read": reads, "cache_write": None}
    assert read(recorded)[1].reading.prompt == HEAD + 10
    recorded["turns"][1]["usage"]["input"] = 5
    assert len(read(recorded)) == 1


def test_entries_live_for_an_hour_if_most_are_read_after_five_minutes() -> None:
    turns = [
        ("10:00:00Z", 0, HEAD),
        ("10:30:00Z", HEAD, 800),
        ("10:40:00Z", HEAD + 800, 800),
        ("10:50:00Z", 0, HEAD + 2400),
        ("12:00:00Z", 0, HEAD + 3200),
    ]
    assert causes(session(*turns)) == {1: [MissCause.START], 4: [MissCause.UNRECORDED], 5: [MissCause.EXPIRY]}
    turns[2] = ("10:40:00Z", 0, HEAD + 1600)
    assert causes(session(*turns)) == {1: [MissCause.START], **{turn: [MissCause.EXPIRY] for turn in (3, 4, 5)}}


def test_a_prompt_that_shrank_was_changed_by_the_client_and_a_whole_record_leaves_the_provider() -> None:
    turns = [("10:00:00Z", 0, HEAD), ("10:01:00Z", HEAD, 9_000), ("10:02:00Z", HEAD, 2_000), ("10:03:00Z", HEAD, 9_000)]
    assert causes(session(*turns)) == {1: [MissCause.START], 3: [MissCause.MESSAGES], 4: [MissCause.UNRECORDED]}
    whole = session(*turns, head={"system": [{"type": "text", "text": WORDS}]})
    assert causes(whole)[4] == causes(session(*turns, system=WORDS))[4] == [MissCause.PROVIDER]


def test_a_compaction_costs_what_follows_the_head_and_cleared_results_change_messages() -> None:
    turns = [("10:00:00Z", 0, HEAD), ("10:01:00Z", HEAD, 800), ("10:02:00Z", HEAD, 1000), ("10:03:00Z", HEAD, 1500)]
    compacted = {"kind": "compact", "before_msg": 4, "summary": WORDS}
    assert causes(session(*turns, resets=(compacted,)))[3] == [MissCause.COMPACTION]
    at_work = session(*turns, resets=({**compacted, "before_msg": 5},))
    assert causes(at_work)[3] == [MissCause.COMPACTION]  # the summary was the request, and a reply is next
    cleared = {"kind": "microcompact", "before_msg": 6, "summary": None}
    assert causes(session(*turns, resets=(cleared,)))[4] == [MissCause.MESSAGES]


def test_requests_without_counts_are_omitted_and_agents_are_named() -> None:
    recorded = session(("10:00:00Z", 0, HEAD), ("10:01:00Z", HEAD, 800))
    recorded["turns"][0]["usage"] = None
    (only,) = read_recorded(requests_of(recorded), "agent")
    assert (only.turn, only.causes[0].cold.name) == (2, "agent")
    (group,) = sum_recorded({"s": [only]})
    assert (group.text, group.is_miss, group.worst[0]) == ("a conversation began (agent)", False, "s")


@given(
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 40_000), st.integers(0, 40_000)), min_size=1, max_size=6),
    st.booleans(),
)
def test_the_causes_of_any_recorded_session_add_up(turns: list[tuple[int, int, int]], compacts: bool) -> None:
    resets = ({"kind": "compact", "before_msg": 2, "summary": "A summary."},) if compacts else ()
    recorded = session(
        *((f"{10 + n}:{at:02}:00Z", reads, writes) for n, (at, reads, writes) in enumerate(turns)), resets=resets
    )
    for each in read(recorded):
        reading = each.reading
        assert reading.read + reading.cold + reading.new == reading.prompt
        assert reading.new >= 0
        assert reading.cold in (max(0, reading.expected - reading.read), reading.prompt - reading.read)


def test_recordings_of_the_period_are_read_and_others_are_named(tmp_path: Path) -> None:
    old = session(("10:00:00Z", 0, HEAD), name="old")
    uncounted = session(("10:00:00Z", 0, HEAD), name="uncounted")
    del uncounted["turns"][0]["usage"]
    found_ones = (old, session(("10:00:00Z", 0, HEAD)), {"name": "none", "turns": []}, uncounted)
    lines = [json.dumps(each) for each in found_ones]
    (tmp_path / "all.jsonl").write_text("\n".join(lines).replace("2026-11-20T10", "2026-11-19T10", 1))
    skipped: list[str] = []
    found = find_misses([tmp_path], since="2026-11-20", skip=skipped.append, progress=lambda done, total: None)
    assert list(found.sessions) == ["s"]
    assert len(skipped) == 1
    assert found.left_out == [
        "1 session left out, last used before 2026-11-20: old.",
        "1 session left out, whose requests have no token counts: uncounted.",
    ]


SESSIONS = Path(__file__).parents[4] / "shared/data/sessions"


@pytest.mark.release
@pytest.mark.skipif(not SESSIONS.exists(), reason="the recorded sessions are not here")
def test_each_cold_token_of_the_public_sessions_has_a_cause_and_few_are_not_on_record() -> None:
    found: Counter[MissCause] = Counter()
    for file in SESSIONS.rglob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            for each in read(json.loads(line)):
                assert each.reading.cold == sum(cause.cold.tokens for cause in each.causes)
                assert each.reading.read + each.reading.cold + each.reading.new == each.reading.prompt
                for cause in each.causes:
                    found[cause.cold.cause] += cause.cold.tokens
    assert found[MissCause.UNRECORDED] < found.total() / 14
