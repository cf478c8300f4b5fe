"""The composition of the session registry over an open log, for a server and for the library."""

import trio

from mnemosyne.actors.known_credentials import ClientKeys
from mnemosyne.actors.patience import USUAL
from mnemosyne.actors.questions import HelperQuestions
from mnemosyne.actors.registry import SessionRegistry
from mnemosyne.adapters.embedding.embedder import LocalModel
from mnemosyne.app.knowledge import open_knowledge_source
from mnemosyne.app.policies import load_policy
from mnemosyne.app.process import new_salt
from mnemosyne.app.settings import settings_of
from mnemosyne.config import Config
from mnemosyne.domain.ports import ContentStore, EventLog, Journal
from mnemosyne.domain.recall.object_search import ObjectIndex
from mnemosyne.domain.session.events import Event


def open_registry(
    nursery: trio.Nursery,
    config: Config,
    *,
    events: EventLog[Event],
    contents: ContentStore,
    journal: Journal,
    index: ObjectIndex,
    model: LocalModel,
) -> SessionRegistry:
    """Open the registry of a process's sessions, which run in ``nursery``, with the source of memory across sessions,
    which searches with ``model``.
    Raises BadConfiguration for unusable settings.
    """
    plug_in = load_policy(config)
    knowledge_source = open_knowledge_source(events, journal, config, model)
    nursery.start_soon(knowledge_source.run)
    registry = SessionRegistry(
        nursery,
        event_log=events,
        contents=contents,
        journal=journal,
        new_salt=new_salt,
        index=index,
        settings=settings_of(config, plug_in),
        patience=USUAL.times(config.patience),
        client_keys=ClientKeys() if config.helper == "client" else None,
        questions=HelperQuestions() if config.helper != "extractive" else None,
        knowledge_source=knowledge_source,
        plug_in=plug_in,
    )
    nursery.start_soon(registry.run)
    return registry
