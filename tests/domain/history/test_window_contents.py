"""What fills a window: every block belongs to one kind, by its structure."""

import attrs
import pytest

from mnemosyne.domain.history.manifest import Manifest
from mnemosyne.domain.history.window_contents import ContentKind, WindowContents, classify_object, list_contents
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.segmentation.authors import Author, find_authors
from mnemosyne.domain.segmentation.prose import describe
from mnemosyne.services.manifests import contents_as_json, read_manifest
from tests.golden.sessions import LOGS, opened


async def managed() -> Manifest:
    """A request with files in full and at L2, an index of evicted content, and memory tools."""
    archive = opened(LOGS / "managed-before-tariffs")
    (stream,) = await archive.events.streams()
    return await read_manifest(archive, str(stream), "main", "8")


def labels(contents: WindowContents, kind: ContentKind) -> list[tuple[str, int]]:
    return [(group.label, len(group.items)) for each in contents.kinds if each.kind is kind for group in each.groups]


async def test_items_are_listed_by_kind_and_source_largest_first() -> None:
    contents = list_contents(await managed())
    assert labels(contents, ContentKind.FILES) == [("/src/proxy.py", 1), ("/docs/notes.md", 1)]
    assert sorted(labels(contents, ContentKind.TOOLS)) == [("Bash", 1), ("Edit", 1), ("Read", 1), ("Write", 1)]
    assert ("Index of evicted content", 2) in labels(contents, ContentKind.MEMORY)
    assert ("memory_query", 1) in labels(contents, ContentKind.MEMORY)
    assert ("Read the notes.", 1) in labels(contents, ContentKind.PROMPTS)
    notes = next(group for kind, group in contents.largest if group.label == "/docs/notes.md")
    assert (notes.items[0].level, notes.items[0].object is not None) == (Fidelity.COMPACT, True)
    for sizes in ([each.tokens for each in contents.kinds], [group.tokens for _, group in contents.largest]):
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("text", "author", "kind"),
    [
        ("<local-command-stdout>Set model</local-command-stdout>", Author.CLIENT, ContentKind.REMINDERS),
        ("<bash-stderr>make: no rule</bash-stderr>", Author.CLIENT, ContentKind.REMINDERS),
        ("<task-notification>done</task-notification>", Author.CLIENT, ContentKind.REMINDERS),
        ("<system-reminder>Be brief.</system-reminder>", Author.CLIENT, ContentKind.REMINDERS),
        ("This session is being continued from a previous conversation", Author.CLIENT, ContentKind.REMINDERS),
        ("Read the notes.", Author.USER, ContentKind.PROMPTS),
    ],
)
async def test_text_has_one_author_in_the_conversation_and_in_the_window(
    text: str, author: Author, kind: ContentKind
) -> None:
    block = {"type": "text", "text": text}
    assert find_authors("user", [block]) == (author,)
    described = describe("user", block)
    phase = next(each.object for each in (await managed()).pages if each.object.source_tool is None)
    assert classify_object(attrs.evolve(phase, kind=described.kind, tags=described.tags)) is kind


async def test_sizes_add_up_to_the_provider_s_count_or_to_the_estimate() -> None:
    manifest = await managed()
    contents = list_contents(manifest)
    assert (contents.is_counted, contents.tokens) == (True, 8267)
    assert contents.share == 8267 / 14_012
    unsized = [attrs.evolve(each, tokens=None) if each.section == "system" else each for each in manifest.view.blocks]
    image = list_contents(attrs.evolve(manifest, view=attrs.evolve(manifest.view, blocks=tuple(unsized))))
    assert image.tokens == 8267
    assert [each.tokens for each in image.kinds if each.kind is ContentKind.OTHER] == [271]
    unknown = list_contents(attrs.evolve(manifest, assessed=None))
    assert (unknown.window, unknown.share) == (None, None)


async def test_user_s_text_is_a_prompt_though_its_object_lacks_the_tag() -> None:
    manifest = await managed()
    pages = [
        attrs.evolve(
            each, object=attrs.evolve(each.object, tags=tuple(tag for tag in each.object.tags if tag != "user"))
        )
        for each in manifest.pages
    ]
    old = list_contents(attrs.evolve(manifest, pages=tuple(pages)))
    for kind in (ContentKind.PROMPTS, ContentKind.REMINDERS, ContentKind.REPLIES):
        assert labels(old, kind) == labels(list_contents(manifest), kind), kind
    assert labels(old, ContentKind.PROMPTS)
    notes = [attrs.evolve(each, object=attrs.evolve(each.object, tags=("reminder",))) for each in pages]
    noted = list_contents(attrs.evolve(manifest, pages=tuple(notes)))
    assert labels(noted, ContentKind.PROMPTS) == [("And the proxy?", 1)]  # in no object yet


async def test_json_has_the_tokens_of_each_kind_and_group() -> None:
    shown = contents_as_json(list_contents(await managed()))
    assert shown["tokens"] == sum(kind["tokens"] for kind in shown["kinds"])
    files = next(kind for kind in shown["kinds"] if kind["kind"] == "files")
    assert files["groups"][0]["label"] == "/src/proxy.py"
    assert files["groups"][0]["items"][0]["level"] == "L0"
