"""``mnemosyne objects --topics``: what a branch of a session was about, and when."""

from typing import Any
from uuid import UUID

from mnemosyne.cli.printing import print_json, print_table, say
from mnemosyne.domain.history.memory_travel import Moment
from mnemosyne.domain.segmentation.episodes import FIRST_TURN, Episode, Topics, topics_of
from mnemosyne.figures import plural, printable
from mnemosyne.services.unstructuring import members


def show_topics(stream: UUID, found: Moment, as_json: bool) -> None:
    """Print the episodes and themes at a moment."""
    topics = topics_of(found.memory, found.branch)
    if as_json:
        print_json({"session": str(stream), "branch": found.branch, "turn": found.turn, **topics_as_json(topics)})
        return
    say(f"{found.branch} {found.turn}", bold=True)
    if not topics.episodes:
        say(f"Topics are told from turn {FIRST_TURN} of a branch on.")
        return
    print_table(TOPIC_HEADERS, topic_rows(topics), right="TURNS OBJECTS")
    say()
    say(f"{plural(len(topics.episodes), 'episode')}, {plural(len(topics.themes), 'theme')} with more than one")


TOPIC_HEADERS = ("ID", "TURNS", "OBJECTS", "THEME", "ABOUT")


def topic_rows(topics: Topics) -> list[tuple[str, ...]]:
    """A row for each episode; those of one theme name the first of them."""
    again = {episode.theme for theme in topics.themes for episode in theme}
    return [_row(each, again) for each in topics.episodes]


def _row(episode: Episode, again: set[str | None]) -> tuple[str, ...]:
    return (
        episode.object or "(goes on)",
        f"{episode.first_turn}-{episode.last_turn}",
        str(len(episode.parts)),
        (episode.theme if episode.theme in again else None) or "-",
        printable(episode.about) or "(forgotten)",
    )


def topics_as_json(topics: Topics) -> dict[str, Any]:
    """The same for programs."""
    return {
        "episodes": [
            members(each, "theme first_turn last_turn about", id="object", objects="parts") for each in topics.episodes
        ],
        "themes": [[each.object for each in theme] for theme in topics.themes],
    }
