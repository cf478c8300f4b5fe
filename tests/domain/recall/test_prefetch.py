"""The pre-pass: which messages recall something, and what is chosen for them."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.domain.objects.events import Link, LinkRelation, ObjectCreated, Supersession
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.memory import succeed
from mnemosyne.domain.recall.prefetch import (
    LIMITS,
    beyond_name,
    by_words,
    choose,
    common,
    find_hidden,
    find_named,
    make_brought,
    question_of,
    recalls,
)
from tests.domain import recorded
from tests.domain.recall.test_goals import messages_of
from tests.domain.remembered import BRANCH, created, degraded, remembered, summarized, superseded


@pytest.mark.parametrize(
    "message",
    [
        "as we decided, keep the limit",
        "What did we decide about the pool?",
        "why didn't you do the proposed wrapper?",
        "Let's go back to the first approach",
        "that decision about caching, does it hold?",
        "Do you remember how we fixed the parser?",
        "can you tell me again what the flag does?",
        "what was the name of the field in metadata.json again?",
        "Revisit the plan, please",
        "remind me why it fails",
        "we agreed on that earlier",
        "the things we did since the release",
        "Mach es, wie besprochen",
        "Comme on a dit, on garde ça",
        "Como acordamos, sin caché",
        "как мы договорились, без кеша",
        "之前我们决定用哪个端口",
        "さっきの方針で",
        "아까 말한 대로",
    ],
)
def test_what_refers_to_earlier_is_a_recall(message: str) -> None:
    assert recalls(message)


@pytest.mark.parametrize(
    "message",
    [
        "yes, go on",
        "can you add a test for this?",
        "rewind can only go back the active branch",
        "press the up arrow to get the prompt you just typed again",
        "remove the tests again",
        'the text shall say "as we decided"',
        "```\nas we agreed earlier\n```\nwhat is wrong here?",
        "check that it isn't called before saving",
        "> as we decided\nno.",
        "x" * 2_000 + " as we decided " + "x" * 2_000,
        "",
    ],
)
def test_what_is_quoted_pasted_or_only_sounds_so_is_none(message: str) -> None:
    assert not recalls(message)


def test_hardly_any_recorded_message_is_a_recall() -> None:
    """Of 658 typed in recorded coding sessions 19; most of them begin a session with a question about one before."""
    typed = [
        said for session in recorded.sessions() if "claude" in session["agent"] for _, said, _ in messages_of(session)
    ]
    assert len(typed) == 658
    assert sum(map(recalls, typed)) == 19


@given(st.text(max_size=50), st.integers(0, 200_000))
def test_a_question_is_never_long_and_keeps_both_ends(own: str, pasted: int) -> None:
    question = question_of(f"{own}{'x' * pasted}{own}")
    assert len(question) <= 1_402
    assert question.startswith(own)
    assert question.endswith(own)


@given(st.text())
def test_any_message_can_be_read(message: str) -> None:
    assert recalls(message) in (True, False)


# What could be brought


def claim(object_id: str, source: str, sentence: str = "Let's use a limit of 7 retries.") -> ObjectCreated:
    return created(
        object_id,
        kind=ObjectKind.DESIGN_DECISION,
        role=Role.CLAIM,
        places=(),
        stub=sentence,
        line=sentence,
        tokens=12,
        links=(Link(LinkRelation.REFERENCES, source),),
    )


def ids(names: str) -> dict[str, None]:
    return dict.fromkeys(names.split())


def test_only_what_is_not_shown_in_full_and_still_true_can_be_brought() -> None:
    memory = remembered(
        created("full"),
        created("gone", 3),
        degraded("gone", Fidelity.EVICTED),
        created("stale", 5),
        degraded("stale", Fidelity.EVICTED),
        superseded("stale", Supersession.EDITED),
        created("again", 7),
        degraded("again", Fidelity.STUB),
    )
    assert set(find_hidden(memory, BRANCH, frozenset({"again"}))) == {"gone"}


def test_a_claim_is_hidden_once_what_it_was_said_in_is() -> None:
    memory = remembered(created("talk"), claim("claim", "talk"))
    assert find_hidden(memory, BRANCH, frozenset()) == {}
    gone = remembered(degraded("talk", Fidelity.COMPACT), before=memory)
    assert set(find_hidden(gone, BRANCH, frozenset())) == {"talk", "claim"}


def test_a_claim_of_the_user_is_hidden_only_once_the_window_that_it_was_made_in_is_gone() -> None:
    prompt = created("talk", tags=("user",), kind=ObjectKind.CONVERSATION_PHASE)
    by_user = attrs.evolve(claim("claim", "talk"), tags=("decision", "user"))
    memory = remembered(prompt, by_user, degraded("talk", Fidelity.EVICTED))
    assert "claim" not in find_hidden(memory, BRANCH)
    by_agent = attrs.evolve(by_user, object="other", tags=("decision", "assistant"))
    assert "other" in find_hidden(remembered(by_agent, before=memory), BRANCH)
    assert {"talk", "claim"} <= find_hidden(succeed(memory, "next", BRANCH), "next").keys()


def hidden_objects(count: int, tokens: int = 1_000, links: tuple[Link, ...] = ()) -> list[object]:
    events: list[object] = []
    for number in range(count):
        name = f"o{number}"
        own = links if number == 0 else ()
        events += [created(name, 2 * number + 1, tokens=tokens, links=own), degraded(name, Fidelity.EVICTED)]
    return events


def test_what_the_best_depends_on_comes_with_it() -> None:
    events = hidden_objects(6, links=(Link(LinkRelation.DEPENDS_ON, "o5"), Link(LinkRelation.CAUSED_BY, "o4")))
    memory = remembered(*events)  # type: ignore[arg-type]
    among = find_hidden(memory, BRANCH, frozenset())
    wanted = choose(memory, BRANCH, ids("o0 o1 o2 o3"), among)
    assert [each.object.id for each in wanted] == ["o0", "o1", "o5"]
    without = choose(memory, BRANCH, ids("o1 o2 o3"), among)
    assert [each.object.id for each in without] == ["o1", "o2", "o3"]


def test_a_claim_brings_what_it_was_said_in() -> None:
    memory = remembered(created("talk"), degraded("talk", Fidelity.EVICTED), claim("claim", "talk"))
    wanted = choose(memory, BRANCH, ids("claim"), find_hidden(memory, BRANCH, frozenset()))
    assert [(each.object.id, each.is_claim) for each in wanted] == [("claim", True), ("talk", False)]


def test_a_summary_that_fits_and_says_more_than_is_shown_is_brought_at_its_fidelity() -> None:
    memory = remembered(created("gone"), summarized("gone", Fidelity.DETAILED, 300), degraded("gone", Fidelity.STUB))
    (wanted,) = choose(memory, BRANCH, ids("gone"), find_hidden(memory, BRANCH, frozenset()))
    assert wanted.after is Fidelity.DETAILED
    large = remembered(created("gone"), summarized("gone", Fidelity.DETAILED, 3_000), degraded("gone", Fidelity.STUB))
    (wanted,) = choose(large, BRANCH, ids("gone"), find_hidden(large, BRANCH, frozenset()))
    assert wanted.after is None
    shown = remembered(summarized("gone", Fidelity.DETAILED, 300), before=memory)
    shown = remembered(degraded("gone", Fidelity.DETAILED), before=shown)
    (wanted,) = choose(shown, BRANCH, ids("gone"), find_hidden(shown, BRANCH, frozenset()))
    assert wanted.after is None


SAID_IN_O0 = (Link(LinkRelation.REFERENCES, "o0"),)


@given(
    st.lists(st.integers(1, 5_000), min_size=1, max_size=9),
    st.lists(st.integers(1, 400), max_size=9),
)
def test_no_choice_is_ever_above_its_limits(sizes: list[int], sentences: list[int]) -> None:
    events: list[object] = []
    for number, tokens in enumerate(sizes):
        name = f"o{number}"
        events += [created(name, 2 * number + 1, tokens=tokens), degraded(name, Fidelity.EVICTED)]
    for number, tokens in enumerate(sentences):
        events.append(created(f"c{number}", places=(), role=Role.CLAIM, tokens=tokens, stub="s", links=SAID_IN_O0))
    memory = remembered(*events)  # type: ignore[arg-type]
    among = find_hidden(memory, BRANCH, frozenset())
    wanted = choose(memory, BRANCH, dict.fromkeys(among), among)
    claims = [each for each in wanted if each.is_claim]
    objects = [each for each in wanted if not each.is_claim]
    assert len(claims) <= LIMITS.claims
    assert len(objects) <= LIMITS.objects
    assert all(each.most <= LIMITS.one for each in objects)
    assert sum(min(each.most, each.object.tokens) for each in wanted) <= LIMITS.tokens


NAMED = remembered(
    created("pool", stub="s", line="l", source_key="/w/src/db/pool.py", key_entities=("max_connections", "retry")),
    created("queue", 3, stub="s", line="l", source_key="/w/src/queue.py", key_entities=("ERR_QUEUE_7", "retry")),
    created("spool", 5, stub="s", line="l", source_key="/w/src/spool.py", key_entities=("drainSpool",)),
    created("said", 7, stub="s", line="l", source_key=None, key_entities=("drainSpool",)),
).objects


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("have a look at pool.py again", {"pool"}),
        ("why is src/db/pool.py:41 red?", {"pool"}),
        ("./src/queue.py, then", {"queue"}),
        ("what throws `ERR_QUEUE_7`", {"queue"}),
        ("rename drainSpool and max_connections", {"pool", "spool", "said"}),
        ("now do the pool, with a retry / twice", set()),
        ("什么时候", set()),
        ("1204 77 3", set()),
        ("", set()),
    ],
)
def test_a_path_by_its_end_and_an_identifier_name_an_object_and_plain_words_do_not(
    message: str, found: set[str]
) -> None:
    assert set(find_named(message, NAMED)) == found


def test_an_identifier_that_many_hold_names_none_of_them() -> None:
    many = [
        created(f"o{number}", 2 * number + 1, source_key=None, key_entities=("load_config",)) for number in range(4)
    ]
    assert len(find_named("what is load_config?", remembered(*many[:3]).objects)) == 3
    assert find_named("what is load_config?", remembered(*many).objects) == {}


@given(st.text(max_size=80), st.sampled_from(["pool.py", "max_connections", "src/queue.py"]))
def test_a_name_more_never_hides_what_was_named(message: str, name: str) -> None:
    assert set(find_named(message, NAMED)) <= set(find_named(f"{message}\n{name}", NAMED))


def test_words_find_an_object_by_what_is_known_of_it() -> None:
    memory = remembered(
        created("pool", stub="Read src/db/pool.py (90 lines)", line="Read src/db/pool.py", source_key="src/db/pool.py"),
        created("queue", 3, stub="Read src/queue.py", line="Read src/queue.py", source_key="src/queue.py"),
    )
    assert by_words("what is in pool.py?", memory.objects) == ["pool"]
    assert by_words("what about the weather tomorrow?", memory.objects) == []


def test_beyond_its_name_is_what_a_question_asks_of_an_object() -> None:
    each = remembered(created("a")).objects["a"]
    assert beyond_name("what are retries in src/a.py", each) == "what are retries in"
    assert beyond_name("src/a.py", each) == "src/a.py"


# What it is known again by


def test_a_text_is_known_again_by_what_only_it_says() -> None:
    memory = remembered(
        created("shown", key_entities=("read_config",)),
        created("one", 3, key_entities=("MAX_RETRIES",)),
        created("two", 5, key_entities=("MAX_RETRIES", "queue_limit")),
        degraded("one", Fidelity.EVICTED),
        degraded("two", Fidelity.EVICTED),
    )
    text = "read_config sets MAX_RETRIES and queue_limit and proxy_port and asked_for"
    found = make_brought(memory.objects["two"], text, 20, "what of asked_for?", common(memory, BRANCH))
    assert found.words == ("queue_limit", "proxy_port")
    assert found.enough == 2


def test_a_sentence_without_specifics_is_known_again_by_most_of_its_words() -> None:
    each = remembered(created("a")).objects["a"]
    found = make_brought(each, "Keep sessions apart because tenants must never meet", 12, "sessions?", frozenset())
    assert "session" not in found.words
    assert 2 <= found.enough <= len(found.words)
