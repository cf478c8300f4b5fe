"""``python -m benchmarks.agent_memory``: the benchmark in one command; without the sessions, its recorded results."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
import trio

from benchmarks.agent_memory import generate, measure
from benchmarks.agent_memory.generate import Question
from benchmarks.retrieval import searchers
from mnemosyne_lab.evaluation.reading import read
from tests.domain.recorded import DATA

HERE = Path(__file__).parent
QUESTIONS, PARAPHRASES, RESULTS = HERE / "questions.jsonl", HERE / "paraphrases.json", HERE / "results.json"

NUMBERS = {"value": 350, "error": 60, "change": 120, "order": 260, "decision": 280}
"""Maximum numbers of generated questions of each class."""

FOREIGN = 100

Results = dict[str, dict[str, bool]]
"""Whether a question has its answer, by way of keeping context and id of the question."""


@click.command()
@click.option(
    "--sessions",
    type=click.Path(path_type=Path),
    default=DATA / "sessions",
    help="Folder of recorded sessions in JSON Lines (`mnemosyne evaluate --help` describes the format).",
)
@click.option("--only", help="Sessions whose names begin with this text.")
@click.option("--without-index", is_flag=True, help="Look at contexts only: minutes instead of an hour.")
@click.option("--regenerate", is_flag=True, help="Make the questions again before.")
@click.option("--write", is_flag=True, help="Add to the recorded results, after each session.")
def main(sessions: Path, only: str | None, without_index: bool, regenerate: bool, write: bool) -> None:
    """Ask 1,000 questions about recorded sessions of coding agents under seven policies.

    Needs no key and no network. Without the folder of sessions it shows the recorded results.
    """
    if not sessions.is_dir():
        click.echo(f"There are no sessions in {sessions}; these are the recorded results.\n")
    else:
        files = sorted(sessions.glob("**/*.jsonl"))
        if regenerate:
            write_questions(files)
        asked = [each for each in load_questions() if each.session.startswith(only or "")]
        results: Results = defaultdict(dict)
        for found in run(files, asked, without_index=without_index):
            add(results, found)
            if write:
                write_results(found)
        click.echo("\n".join(render(asked, results)))
        return
    click.echo("\n".join(render(load_questions(), json.loads(RESULTS.read_text(encoding="utf-8")))))


def add(results: Results, found: Results) -> None:
    """Add the results of a session to those of others."""
    for way, held in found.items():
        results.setdefault(way, {}).update(held)


def write_results(found: Results) -> None:
    """Record the results of a session; those of questions that no longer exist are dropped."""
    results: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    known = {each.id for each in load_questions()}
    add(results, found)
    kept = {way: {key: held[key] for key in sorted(known & held.keys())} for way, held in results.items()}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def write_questions(files: Iterable[Path]) -> None:
    """Generate the questions again."""
    chosen = generate.choose_sessions(list_recorded(files))
    questions = generate.generate(chosen, NUMBERS)
    questions += generate.list_foreign(questions, chosen, FOREIGN)
    lines = (json.dumps(attrs.asdict(each), ensure_ascii=False) for each in questions)
    QUESTIONS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def list_recorded(files: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """The sessions of files."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


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
    for recorded in read(files, lambda _: iter(())):
        if isinstance(recorded, str) or recorded.name not in by_session:
            continue
        questions = by_session.pop(recorded.name)
        results = measure.look(recorded, questions)
        if not without_index:
            whole = next(each for each in list_recorded(files) if each["name"] == recorded.name)
            results[measure.ONE_QUESTION] = trio.run(measure.ask, whole, questions, embedder)
        yield results
        click.echo(f"{recorded.name}: {len(questions)} questions, {len(by_session)} to go", err=True)


def render(asked: Sequence[Question], results: Mapping[str, Mapping[str, bool]]) -> Iterator[str]:
    """The table in Markdown: the share of questions whose answer each way holds, by class."""
    classes = [*NUMBERS, "paraphrased", "foreign"]
    groups: dict[str, list[str]] = defaultdict(list)
    for each in asked:
        groups["paraphrased" if each.generator == "reader" else each.of].append(each.id)
    yield f"| | {' | '.join(f'{name} ({len(groups[name])})' for name in classes)} |"
    yield f"|---|{'--:|' * len(classes)}"
    ways = {**results}
    if answers := results.get(measure.ONE_QUESTION):
        sight = results["mnemosyne"]
        ways["mnemosyne, in sight or one question"] = {key: held or sight[key] for key, held in answers.items()}
    for way, held in ways.items():
        asks = way == measure.ONE_QUESTION
        shown = [groups[name] if asks or name != "foreign" else [] for name in classes]
        cells = (_render_share([held[key] for key in keys if key in held]) for keys in shown)
        yield f"| {way} | {' | '.join(cells)} |"


def _render_share(held: Sequence[bool]) -> str:
    return f"{sum(held) / len(held):.0%}" if held else "-"


if __name__ == "__main__":
    main()
