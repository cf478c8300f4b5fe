"""A conversation gives the same objects in every dialect, however its elements are divided."""

from mnemosyne.domain.objects.segmentation_state import SegmentationState
from mnemosyne.domain.segmentation.segment import Draft, SeenMessage, segment
from mnemosyne.domain.wire import transcript
from tests.domain.wire.dialects import WRITTEN, Call, Exchange, ModelReply, Written, bodies, conversation

LONG = "\n".join(f"def part_{number}(): return {number}" for number in range(60))
READ = Call("c1", "Read", {"file_path": "/app/main.py"}, LONG)
LIST, PWD = Call("c2", "Bash", {"command": "ls /app"}, LONG), Call("c3", "Bash", {"command": "pwd"}, "/app")
TALK = (
    Exchange(
        "Why does the import fail in main.py?",
        [
            ModelReply("Let me look at it.", "Its path.", [READ]),
            ModelReply("The module is missing. " * 40),
        ],
    ),
    Exchange("What else is there?", [ModelReply("", "The folder.", [LIST, PWD]), ModelReply("Nothing. " * 30)]),
    Exchange("Then we use SQLite, not files. Please add the module now.", [ModelReply("Added.")]),
    Exchange("Thanks.", [ModelReply("")]),
)


def drafts(written: Written) -> tuple[Draft, ...]:
    read = transcript.read(bodies(written, TALK)[-1], conversation=conversation(written)).transcript
    seen = []
    for number, message in enumerate(read.messages):
        content = read.message(number)["content"]
        held = [{"type": "text", "text": content}] if isinstance(content, str) else content
        seen.append(SeenMessage(number, message.role, 1, held))
    return segment(seen, SegmentationState()).drafts


def test_a_conversation_gives_the_same_objects_in_every_dialect() -> None:
    made = [
        [(each.kind, each.source_key, each.text) for each in drafts(written) if "system" not in each.tags]
        for written in WRITTEN
    ]
    assert len(made[0]) >= 4
    assert made[0] == made[1] == made[2]
