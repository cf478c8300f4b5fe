"""``python -m benchmarks.agent_memory``: the benchmark in one command; without the sessions, its recorded results."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
import click
import trio

from benchmarks.agent_memory import measure
from benchmarks.agent_memory.measure import Question
from benchmarks.recordings import SESSIONS, list_raw, list_sessions
from benchmarks.retrieval import searchers

HERE = Path(__file__).parent
QUESTIONS, PARAPHRASES, RESULTS = HERE / "questions.jsonl", HERE / "paraphrases.json", HERE / "results.json"

CLASSES = ("value", "error", "change", "order", "decision", "paraphrased", "foreign")

Results = dict[str, dict[str, bool]]
"""Whether a question has its answer, by way of keeping context and id of the question."""


@click.command()
@click.option(
    "--sessions",
    type=click.Path(path_type=Path),
    default=SESSIONS,
    help="Folder of recorded sessions in JSON Lines (`mnemosyne evaluate --help` describes the format).",
)
@click.option("--only", help="Sessions whose names begin with this text.")
@click.option("--without-index", is_flag=True, help="Look at contexts only: minutes instead of an hour.")
@click.option("--write", is_flag=True, help="Add to the recorded results, after each session.")
def main(sessions: Path, only: str | None, without_index: bool, write: bool) -> None:
    """Ask 1,000 questions about recorded sessions of coding agents under seven policies.

    Needs no key and no network. Without the folder of sessions it shows the recorded results.
    """
    asked, results = load_questions(), Results()
    if sessions.is_dir():
        asked = [each for each in asked if each.session.startswith(only or "")]
        for found in run(sorted(sessions.glob("**/*.jsonl")), asked, without_index=without_index):
            results = add(results, found)
            if write:
                write_results(found)
    else:
        click.echo(f"There are no sessions in {sessions}; these are the recorded results.\n")
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
    click.echo("\n".join(render(asked, results)))


def add(results: Results, found: Results) -> Results:
    """Merge the results of a session into the others."""
    return {way: results.get(way, {}) | found.get(way, {}) for way in {**results, **found}}


def write_results(found: Results) -> None:
    """Record the results of a session, and drop results of questions that no longer exist."""
    results = add(json.loads(RESULTS.read_text(encoding="utf-8")), found)
    known = {each.id for each in load_questions()}
    kept = {way: {key: held[key] for key in sorted(known & held.keys())} for way, held in results.items()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def load_questions() -> list[Question]:
    """The generated questions, and the paraphrases of some of them."""
    questions = [Question(**json.loads(line)) for line in QUESTIONS.read_text(encoding="utf-8").split("\n") if line]
    paraphrases = json.loads(PARAPHRASES.read_text(encoding="utf-8")) if PARAPHRASES.exists() else {}
    of_id = {each.id: each for each in questions}
    rewritten = [attrs.evolve(of_id[key], question=text, generator="reader") for key, text in paraphrases.items()]
    return questions + rewritten


def run(files: Sequence[Path], asked: Sequence[Question], *, without_index: bool) -> Iterator[Results]:
    """Whether each way holds the answer, session by session."""
    by_session: dict[str, list[Question]] = defaultdict(list)
    for each in asked:
        by_session[each.session].append(each)
    embedder = searchers()[-1][1]
    for recorded in list_sessions(*files):
        if recorded.name not in by_session:
            continue
        questions = by_session.pop(recorded.name)
        results = measure.look(recorded, questions)
        if not without_index:
            (whole,) = list_raw(*files, names=[recorded.name])
            results[measure.ONE_QUESTION] = trio.run(measure.ask, whole, questions, embedder)
        yield results
        click.echo(f"{recorded.name}: {len(questions)} questions, {len(by_session)} to go", err=True)


def render(asked: Sequence[Question], results: Mapping[str, Mapping[str, bool]]) -> Iterator[str]:
    """The table in Markdown: the share of questions whose answer each way holds, by class."""
    groups: dict[str, list[str]] = defaultdict(list)
    for each in asked:
        groups["paraphrased" if each.generator == "reader" else each.of].append(each.id)
    yield f"| | {' | '.join(f'{name} ({len(groups[name])})' for name in CLASSES)} |"
    yield f"|---|{'--:|' * len(CLASSES)}"
    ways = {**results}
    if answers := results.get(measure.ONE_QUESTION):
        sight = results["mnemosyne"]
        ways["mnemosyne, in sight or one question"] = {key: held or sight[key] for key, held in answers.items()}
    for way, held in ways.items():
        asks = way == measure.ONE_QUESTION
        shown = [groups[name] if asks or name != "foreign" else [] for name in CLASSES]
        found = [[held[key] for key in keys if key in held] for keys in shown]
        cells = (f"{sum(each) / len(each):.0%}" if each else "-" for each in found)
        yield f"| {way} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
