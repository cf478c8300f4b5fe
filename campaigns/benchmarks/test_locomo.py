"""The measurement on a user's own data set reads its format and counts as documented."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import locomo

TURNS = [
    [("Ann", "I adopted a puppy called Pixel."), ("Ben", "Congratulations!")],
    [("Ben", "My lighthouse painting won a prize."), ("Ann", "Pixel chewed my shoes.")],
]
QUESTIONS = [
    {"question": "What did Ben's painting win?", "evidence": ["D2:1"], "category": 4},
    {"question": "What did Pixel the puppy chew?", "evidence": ["D1:1; D2:02"], "category": 1},
    {"question": "Which lighthouse painting of Ann's won?", "evidence": ["D2:2"], "category": 5},
    {"question": "Who is nobody?", "evidence": [], "category": 3},
]


def test_questions_with_evidence_are_counted_and_adversarial_ones_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation: dict[str, object] = {"session_3_date_time": "a session without turns"}
    for session, turns in enumerate(TURNS, 1):
        conversation[f"session_{session}_date_time"] = f"1:56 pm on {session} May, 2023"
        conversation[f"session_{session}"] = [
            {"speaker": who, "dia_id": f"D{session}:{turn}", "text": said} for turn, (who, said) in enumerate(turns, 1)
        ]
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([{"qa": QUESTIONS, "conversation": conversation}]))
    monkeypatch.setattr(locomo, "searchers", lambda: [("words alone", None)])
    done = CliRunner().invoke(locomo.main, [str(file)])
    assert done.exit_code == 0, done.output
    rows = {line[:26].strip(): [float(value) for value in line[26:].split()] for line in done.output.splitlines()[1:]}
    assert rows == {
        "all": [2, 1, 1, 1, 1, 1, 1],
        "category 1": [1, 1, 1, 1, 1, 1, 1],
        "category 4": [1, 1, 1, 1, 1, 1, 1],
        "category 5": [1, 0, 1, 1, 1, 1, 0.5],
    }


def test_measures_use_the_evidence_in_result_order() -> None:
    assert locomo.measures([4, 12]) == [0, 1, 1, 0.5, 0.5, 0.25]
