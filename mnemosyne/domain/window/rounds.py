"""What goes upstream first for a request: whether its branch is managed, and what its history goes on from.

Most requests go on with what was sent before. The others begin an epoch: the planner wants one, the client went back to
before the last one, or the branch is managed no longer; then its thinking was signed against another history.
"""

from collections.abc import Sequence
from functools import cached_property

import attrs

from mnemosyne.domain.cost import catalogue
from mnemosyne.domain.cost.tariffs import Caching, Tariff
from mnemosyne.domain.cost.tokens import Estimator
from mnemosyne.domain.segmentation.ingest import head_of
from mnemosyne.domain.session.decide import SetMode
from mnemosyne.domain.session.decision_inputs import ServerSettings
from mnemosyne.domain.session.events import BranchKind, BranchOpened, Event, TurnBegan
from mnemosyne.domain.session.ledger import count_observed, why_to_stop
from mnemosyne.domain.session.round_events import Mode
from mnemosyne.domain.session.state import Branch, Session
from mnemosyne.domain.tools import memory_tools, tool_paging
from mnemosyne.domain.window import epochs, upstream_history
from mnemosyne.domain.window.epochs import NO_LONGER_FITS, may_drop_thinking
from mnemosyne.domain.window.planning import RULE
from mnemosyne.domain.window.situation import OWN_TOOLS, Sizes, costs_of
from mnemosyne.domain.window.upstream_history import UpstreamHistory
from mnemosyne.domain.window.window_size import find_model_window
from mnemosyne.domain.wire.identity import ClientHeaders
from mnemosyne.domain.wire.markers import asks_for_an_hour
from mnemosyne.domain.wire.transcript import Transcript

MANAGEABLE = frozenset({BranchKind.MAIN, BranchKind.AGENT, BranchKind.SUCCESSOR})

TOO_LATE = "its first request could not wait for us"
ASKED_FOR = "it was asked for"
TURNED_OFF = "managing was turned off"
TOOLS_REFUSED = "the provider refuses the memory tools"
ITS_CLIENT_PAGES = "tools are not paged, since its client loads them itself when it needs them"
TOO_SMALL = "the memory tools would be too large a part of it, so they wait until it has grown"
NO_ANSWER = "its session did not answer in time"
NO_ROOM = "there was no memory to read it beside the other requests"

RESERVE = 10
"""This part of a model's window is left free where the client's own history is to go: its size is estimated, and once
it was sent and refused there would be nothing left to go on from.
"""


@attrs.frozen(kw_only=True, slots=False)
class Opening:
    """A request whose turn begins with these ``events``. ``session`` is as they leave it, ``last`` the event with which
    the turn before it began, also on another branch that it goes on from; None where it goes on from none.

    ``wanted`` is the mode that the client or its user asks for, None if they do not say; ``default`` is that of a
    branch that begins.
    """

    at: int
    wanted: Mode | None
    default: Mode
    events: tuple[Event, ...]
    read: Transcript = attrs.field(repr=False)
    session: Session = attrs.field(repr=False)
    last: TurnBegan | None = None

    @property
    def began(self) -> TurnBegan:
        """The event with which its turn begins."""
        began = self.events[-1]
        assert isinstance(began, TurnBegan)
        return began

    @property
    def opened(self) -> BranchOpened | None:
        """The event with which its branch begins, if it does."""
        return next((event for event in self.events if isinstance(event, BranchOpened)), None)

    @property
    def branch(self) -> Branch:
        """Its branch."""
        return self.session.branches[self.began.branch]

    @property
    def begins_branch(self) -> bool:
        """Whether the branch's mode is decided with this request: it is the first of a branch that goes on with no
        other, and none was decided. An attempt or a turn before may have been recorded and never sent, because another
        process had just written, or the client left; then the model has said nothing yet.
        """
        is_first = self.began.turn == 1 or not _has_model_words(self.read)
        return is_first and not self.branch.inherits and not self.branch.decided

    @property
    def is_last(self) -> bool:
        """Whether its branch goes on from it; an earlier turn once more leaves the branch as it is."""
        return self.began.turn == self.branch.turns

    @property
    def went_back(self) -> bool:
        """Whether what the client still shares with its branch was rendered again, so that it cannot be cut there."""
        wire = self.branch.wire
        return wire is not None and self.began.kept < wire.rewritten

    @property
    def goes_on_from(self) -> str:
        """The branch whose upstream history the request goes on from."""
        opened = self.opened
        if opened is not None and opened.inherits and opened.parent is not None:
            return opened.parent
        return self.began.branch

    def client(self, start: int = 0) -> list[bytes]:
        """The client's messages, from this number on."""
        return _client(self.read, start)

    @cached_property
    def fits(self) -> bool:
        """Whether the model takes all that the client says, as far as can be told before it is sent."""
        model = self.read.fields.model
        estimator = self.session.memory.view_of(self.goes_on_from).estimator(model)
        return fits(self.read, estimator, stated=self.session.find_stated_window(model))


def opening_of(
    at: int,
    wanted: Mode | None,
    default: Mode,
    events: Sequence[Event],
    read: Transcript,
    before: Session,
    after: Session,
) -> Opening:
    """The request that leads to these events in a session that stood so ``before``, and ``after`` them."""
    opening = Opening(at=at, wanted=wanted, default=default, events=tuple(events), read=read, session=after)
    known = before.branches.get(opening.goes_on_from)
    return attrs.evolve(opening, last=known.began if known is not None else None)


# Whom it costs what


def tariff_of(opening: Opening, settings: ServerSettings) -> Tariff:
    """What its tokens weigh: the tariff that a server's settings name, else the one that is seen."""
    return find_tariff(opening.branch.speaker, opening.read, settings)


def find_tariff(speaker: ClientHeaders | None, read: Transcript, settings: ServerSettings) -> Tariff:
    """The same for a request of this speaker."""
    credential = speaker.credential if speaker is not None else None
    hour = asks_for_an_hour(read)
    host, tariff = settings.provider_of(read.dialect.name, read.fields.model)
    seen = catalogue.find_tariff_name(credential, hour=hour, host=host, model=read.fields.model)
    return catalogue.tariff_of(tariff or seen)


# Whether it is managed

SETTINGS = ServerSettings()
"""What servers have if nobody says otherwise."""


def stands_on_settings(opening: Opening) -> bool:
    """Whether a server's settings say what leaves for a request; else nobody asked for more than its own bytes."""
    asked = opening.wanted or opening.default
    return asked is not Mode.OBSERVE or opening.branch.mode is not Mode.OBSERVE


def choose_mode(opening: Opening, settings: ServerSettings) -> tuple[Mode, SetMode | None]:
    """The branch's mode, and the command to set it where this request decides that. Of one that waits for its memory
    tools ``late_tools`` says whether they come.

    A branch that is managed stays so until somebody asks for something else, whatever the server's ``default`` is. It
    has its tool budget for good: its tools stay what they are whatever a later server is told.
    """
    branch, wanted = opening.branch, opening.wanted
    if opening.session.off:
        wanted = Mode.BYPASS

    def set_to(mode: Mode, why: str, *, late: bool = False) -> tuple[Mode, SetMode]:
        return mode, set_mode(opening, settings, mode, why, late=late)

    if opening.begins_branch:
        if (wanted or opening.default) is Mode.OBSERVE:
            return Mode.OBSERVE, None
        off = TURNED_OFF if wanted is Mode.BYPASS else ""
        why_not = _obstacle_at_first(opening) or off or why_too_dear(opening, settings)
        if why_not:
            return set_to(Mode.OBSERVE, why_not)
        return (
            set_to(Mode.OBSERVE, TOO_SMALL, late=True)
            if _is_small(opening, settings)
            else set_to(Mode.MANAGE, ASKED_FOR)
        )
    if branch.mode is Mode.MANAGE and may_drop_thinking(opening.read):
        why = _why_no_longer(opening, wanted) or why_too_dear(opening, settings)
        if why is not None:
            return set_to(Mode.BYPASS, why if opening.fits else f"{why}; {NO_LONGER_FITS}")
    return branch.mode, None


def set_mode(opening: Opening, settings: ServerSettings, mode: Mode, why: str, *, late: bool) -> SetMode:
    """The command to set the mode of a request's branch. Managed, it has the tool budget of the settings."""
    budget = settings.tool_budget if mode is Mode.MANAGE else None
    if budget is not None and tool_paging.loads_tools_itself(tool_paging.tools_of(opening.read)):
        budget, why = None, f"{why}; {ITS_CLIENT_PAGES}"
    return SetMode(at=opening.at, branch=opening.branch.name, mode=mode, why=why, tool_budget=budget, late=late)


def _is_small(opening: Opening, settings: ServerSettings) -> bool:
    """Whether the session would be dearer by the memory tools than it may be, should it end with this request, of which
    the provider holds nothing.
    """
    if settings.manages_small:
        return False
    read, ledger, tariff = opening.read, count_observed(opening.session.ledger), tariff_of(opening, settings)
    prompt, tools = count_with_tools(opening)
    for each in costs_of(tariff, read.fields.model, ledger, hour=asks_for_an_hour(read)):
        write = each.write if is_remembered(read, tariff) else 1
        if each.billed + (prompt + tools) * write > RULE.margin * (each.shadow + prompt * write):
            return True
    return False


def count_with_tools(opening: Opening) -> tuple[int, int]:
    """About how many tokens a request has, without the thinking in it, and how many the memory tools."""
    estimator = opening.session.memory.view_of(opening.goes_on_from).estimator(opening.read.fields.model)
    return count_tokens(opening.read, estimator), estimator.tokens(OWN_TOOLS)


def is_remembered(read: Transcript, tariff: Tariff) -> bool:
    """Whether the provider's cache takes anything of a request."""
    return tariff.caching is Caching.PREFIX or bool(read.marked)


def _why_no_longer(opening: Opening, wanted: Mode | None) -> str | None:
    """Why a branch that was managed is managed no longer; None if it is."""
    if wanted in (Mode.OBSERVE, Mode.BYPASS):  # who asks to observe would have thinking sent that fits elsewhere
        return ASKED_FOR
    if memory_tools.collides(opening.read.fields.tool_names):
        return "the client has a tool of its own with the name of a memory tool"
    return None


def why_too_dear(opening: Opening, settings: ServerSettings) -> str | None:
    """Why the bill so far speaks against managing; None if it does not, or nobody sends one."""
    why = why_to_stop(opening.session.ledger)
    return why if why is not None and tariff_of(opening, settings).is_billed else None


def may_be_managed_elsewhere(opening: Opening) -> bool:
    """Whether another process may manage what a request goes on with, of which nothing is known here: the model has
    spoken in it, and its branch begins here, or waits for its memory tools.
    """
    return (opening.opened is not None or opening.branch.late) and _has_model_words(opening.read)


def mode_without_us(opening: Opening, settings: ServerSettings) -> SetMode | None:
    """The command to set the mode of a branch whose first request leaves as it came, or as a fallback: it is never
    managed. None where nothing is decided with this request, or nobody asked for it.
    """
    if not opening.begins_branch:
        return None
    mode, command = choose_mode(opening, settings)
    if command is not None and mode is Mode.MANAGE:
        return attrs.evolve(command, mode=Mode.OBSERVE, why=TOO_LATE, tool_budget=None)
    return command


def obstacle(kind: BranchKind, read: Transcript) -> str:
    """Why a branch with such a request is not managed, wherever it stands; empty if it may be."""
    if kind not in MANAGEABLE or read.opaque is not None:
        return "it is not a conversation of an agent with tools"
    return obstacle_in(read)


def obstacle_in(read: Transcript) -> str:
    """The same of the request of a conversation: why no branch with such a one is managed."""
    if why := read.dialect.find_obstacle(read.member):
        return why
    if read.marked and not read.dialect.marks_cache:
        return "its client marks what is to be cached, which its dialect does not know"
    if not read.fields.has_tools:
        return "its client offers no tools"
    if read.fields.has_thread or read.fields.has_container:
        return "the provider holds a part of it"
    if memory_tools.collides(read.fields.tool_names):
        return "its client has a tool of its own with the name of a memory tool"
    return ""


def _has_model_words(read: Transcript) -> bool:
    """Whether a request holds anything that the model said."""
    return any(message.role == "assistant" for message in read.messages)


def _obstacle_at_first(opening: Opening) -> str:
    """Why a branch that begins with this request is not managed; empty if it is.

    A client that changes its first message, as Claude Code does with another CLAUDE.md or another kind of model, begins
    a branch with a history that it has from one that is managed.
    """
    branch, branches = opening.branch, opening.session.branches.values()
    goes_on = _has_model_words(opening.read)
    known = branch.kind is BranchKind.SUCCESSOR or any(
        each.mode is Mode.MANAGE and each.lane == branch.lane for each in branches
    )
    return obstacle(branch.kind, opening.read) or ("its history began without us" if goes_on and not known else "")


# What it goes on from


def go_on(opening: Opening, prior: UpstreamHistory, mode: Mode) -> UpstreamHistory:
    """The history that goes on from the one before."""
    kept = min(opening.began.kept, len(prior.ends))
    hidden = memory_tools.NAMES if mode is Mode.MANAGE else frozenset()  # elsewhere the client sees all
    return upstream_history.go_on(prior, kept, opening.client(kept), hidden)


def shows_again(opening: Opening, mode: Mode, *, switched: bool) -> bool:
    """Whether a request of a branch that is managed no longer would begin anew with all that its client says, and its
    model does not take so much: then what it showed before is shown, rendered once more.
    """
    return mode is Mode.BYPASS and (switched or opening.went_back) and not opening.fits


def go_on_unplanned(opening: Opening, prior: UpstreamHistory, mode: Mode, *, switched: bool) -> UpstreamHistory:
    """The history of a request that the planner leaves alone. Where the mode is ``switched`` with it, or the client
    went back to what has no place upstream any more, it begins anew with all that the client says.
    """
    if not switched and not opening.went_back:
        return go_on(opening, prior, mode)
    keep_thinking = not switched and not epochs.may_drop_thinking(opening.read)
    return upstream_history.first(
        opening.client(), epoch=prior.epoch + 1, keep_thinking=keep_thinking, dialect=prior.dialect
    )


# Without us


def without_thinking(read: Transcript) -> bytes | None:
    """The client's request without the thinking in it, which a provider may have bound to another history; None where
    it holds none, or must not lose it: then the client's own bytes go.
    """
    client = _client(read)
    if read.opaque is not None or not may_drop_thinking(read):
        return None  # the models that would miss it sign it against nothing
    if not upstream_history.holds_thinking(upstream_history.verbatim(client, read.dialect)):
        return None
    return upstream_history.body(read, upstream_history.first(client, dialect=read.dialect), ())


def fits(
    read: Transcript, estimator: Estimator | None = None, *, most: int | None = None, stated: int | None = None
) -> bool:
    """Whether the model of a request takes all that its client says, thinking left out, with room to spare, and whether
    that is no more than ``most`` tokens. ``stated`` is as in ``window_size.find_model_window``.
    """
    window = find_model_window(read.fields.model, stated)
    allowed = window - window // RESERVE
    return count_tokens(read, estimator) <= (allowed if most is None else min(most, allowed))


def count_tokens(read: Transcript, estimator: Estimator | None = None) -> int:
    """About how many tokens a request has, without the thinking in it."""
    estimator = estimator or Estimator.of(read.fields.model)
    messages = upstream_history.first(_client(read), dialect=read.dialect).messages
    return estimator.tokens(Sizes().of(messages, read.dialect) + head_of(read))


def _client(read: Transcript, start: int = 0) -> list[bytes]:
    return [read.message_bytes(number) for number in range(start, len(read.messages))]
