"""A project has one name, regardless of its clone URL."""

import pytest

from mnemosyne.domain.knowledge.projects import name_remote


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/ada/app.git",
        "https://github.com/ada/app",
        "https://ada:token@GitHub.com/ada/app.git/",
        "ssh://git@github.com:22/ada/app.git",
        "git@github.com:ada/app.git",
        "github.com:ada/app",
    ],
)
def test_all_urls_of_a_repository_give_the_same_name(url: str) -> None:
    assert name_remote(url) == "github.com/ada/app"


@pytest.mark.parametrize("url", ["", "/srv/git/app.git", "../app", "file:///srv/app", "nothing"])
def test_a_local_folder_gives_no_name(url: str) -> None:
    assert name_remote(url) is None
