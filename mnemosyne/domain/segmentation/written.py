"""Objects that a tool of an agent's host writes beside the conversation: the model can search and restore them."""

import json
from collections.abc import Sequence
from hashlib import sha256

from mnemosyne.domain.cost.tokens import features_of_text
from mnemosyne.domain.objects.admission import AdmissionCandidate, admit
from mnemosyne.domain.objects.decide import Create, Supersede
from mnemosyne.domain.objects.events import Link, LinkRelation, Supersession
from mnemosyne.domain.objects.ids import object_id
from mnemosyne.domain.objects.kinds import ObjectKind, Role
from mnemosyne.domain.objects.lookup import living
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.state import Session
from mnemosyne.domain.text.entities import key_entities
from mnemosyne.domain.text.stubs import plain
from mnemosyne.domain.wire import recipe
from mnemosyne.domain.wire.recipe import Piece


def encode_text(text: str) -> tuple[bytes, bytes]:
    """The content of an object with this text, as JSON without credentials, and its digest: (digest, data)."""
    data = json.dumps({"type": "text", "text": sanitize.text(text)}, ensure_ascii=False).encode()
    return sha256(data).digest(), data


def write_object(
    session: Session, branch: str, text: str, *, at: int, name: str, tool: str | None, about: Sequence[str] = ()
) -> tuple[Create | Supersede, ...]:
    """The commands that create an object in a branch. One of the same ``name`` replaces the last. It refers to the
    objects ``about``. Raises NotFound for an unknown one of these.
    """
    assert session.salt is not None
    memory, turn = session.memory, session.branches[branch].turns
    digest, data = encode_text(text)
    name = plain(sanitize.text(name), 200)
    made = object_id(session.salt, b"written", branch.encode(), name.encode(), digest)
    named = (each.id for each in reversed([*memory.objects.values()]) if each.role is Role.WRITTEN and not each.stale)
    before = next((each for each in named if memory.objects[each].source_key == name and each != made), None)
    estimator = memory.view_of(branch).estimator(None)
    tokens = estimator.tokens(features_of_text(text))
    stub = plain(f"{name}: {sanitize.text(text)}", 200)
    links = [Link(LinkRelation.REFERENCES, living(memory, each).id) for each in about]
    create = Create(
        at=at,
        object=made,
        branch=branch,
        turn=turn,
        kind=ObjectKind.TOOL_RESULT,
        role=Role.WRITTEN,
        source_tool=tool,
        source_key=name,
        tags=(),
        first_turn=turn,
        last_turn=turn,
        places=(),
        content=recipe.encode(recipe.change_of(0, (Piece(digest, 0, len(data)),), 0)),
        size=len(text),
        tokens=tokens,
        stub=stub,
        stub_tokens=estimator.tokens(features_of_text(stub)),
        line=stub,
        key_entities=key_entities(text[:100_000], 12),
        links=(*links, *([Link(LinkRelation.SUPERSEDES, before)] if before else ())),
        admission=admit(AdmissionCandidate(kind=ObjectKind.TOOL_RESULT, role=Role.WRITTEN, tokens=tokens)),
    )
    replace = Supersede(at=at, object=before or "", branch=branch, by=made, how=Supersession.REVISED)
    return (create, replace) if before else (create,)
