"""The sessions of a project are those whose client worked in its folder."""

from mnemosyne.services.forgetting import forget
from mnemosyne.services.projects import sessions_in
from tests.services.talking import Plain, body, plain, talking, user


async def worked_in(*folders: str) -> Plain:
    """A session in each folder, after a side call that names none."""
    archive = plain()
    for folder in folders:
        async with talking(archive, f"in {folder}") as talk:
            await talk.ask(body([user("A title, please.")], tools=[], system="Write titles."))
            await talk.ask(body([user("Hello.")], system=f"You are an agent.\nWorking directory: {folder}\n"))
    return archive


async def test_the_folder_itself_and_what_is_below_it_count_and_a_neighbour_does_not() -> None:
    archive = await worked_in("/home/ada/app", "/home/ada/app/src", "/home/ada/apple")
    first, second, _ = await archive.events.streams()
    assert await sessions_in(archive, "/home/ada/app") == [first, second]
    assert await sessions_in(archive, "/home/ada/app/src") == [second]
    assert await sessions_in(archive, "/home/bob") == []


async def test_a_forgotten_session_is_nobody_s() -> None:
    archive = await worked_in("/home/ada/app")
    (stream,) = await archive.events.streams()
    await forget(archive, stream, lambda: 1, "c")
    assert await sessions_in(archive, "/home/ada/app") == []
