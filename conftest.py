"""The fixtures of `tests` serve `campaigns` too."""

pytest_plugins = ("tests.fixtures",)
