"""The first upstream request of a turn: whether its branch is managed, and which history it continues.

Most requests continue the history that was sent before. The others begin an epoch: the planner decides so, the client
went back to before the last epoch, or the branch is no longer managed; then its thinking was signed for another
history.
"""

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
from mnemosyne.domain.session.round_events import TOO_SMALL, UNTIL_EVICTED, Mode
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

TOO_LATE = "its first request could not wait for us"
ASKED_FOR = "it was asked for"
TURNED_OFF = "managing was turned off"
BEHIND_REFUSED = "the provider refuses the memory tools behind its cached head, so they go in front of it"
TOOLS_REFUSED = "the provider refuses the memory tools"
ITS_CLIENT_PAGES = "tools are not paged, since its client loads them itself when it needs them"
NO_ANSWER = "its session did not answer in time"
NO_ROOM = "there was no memory to read it beside the other requests"
THINKING_REFUSED = "the provider refused its thinking, which was signed for another prompt"
WITHOUT_THINKING = (NO_ANSWER, NO_ROOM, THINKING_REFUSED)
"""The reasons for sending the client's own request without thinking."""

RESERVE = 10
"""This fraction of a model's window stays free when the client's own history is sent: its size is only estimated, and
after a refusal there would be no history left to continue.
"""


@attrs.frozen(kw_only=True, slots=False)
class Opening:
    """A request whose turn begins with these ``events``; ``before`` and ``session`` are the states before and after
    them. ``wanted`` is the mode that the client or its user requests, None if unspecified; ``default`` is the mode of a
    new branch. ``settings`` are the server's, with what the request chooses. ``asks_verdict``: the provider is asked
    why its cache missed. ``takes_behind``: it takes the memory tools behind its cached head.
    """

    at: int
    wanted: Mode | None
    default: Mode
    events: tuple[Event, ...]
    read: Transcript = attrs.field(repr=False)
    before: Session = attrs.field(repr=False)
    session: Session = attrs.field(repr=False)
    settings: ServerSettings
    asks_verdict: bool = False
    takes_behind: bool = False

    @property
    def asked(self) -> Mode | None:
        """The requested mode: bypass if the session or the client wants it, else managing if the session was switched
        on, else the client's wish; None without a request.
        """
        if self.session.off:
            return Mode.BYPASS
        return Mode.MANAGE if self.session.switched and self.wanted is not Mode.BYPASS else self.wanted

    @property
    def began(self) -> TurnBegan:
        """The first event of its turn."""
        began = self.events[-1]
        assert isinstance(began, TurnBegan)
        return began

    @property
    def opened(self) -> BranchOpened | None:
        """The event that opens its branch, if it does so."""
        return next((event for event in self.events if isinstance(event, BranchOpened)), None)

    @property
    def branch(self) -> Branch:
        return self.session.branches[self.began.branch]

    @property
    def begins_branch(self) -> bool:
        """Whether this request decides the branch's mode: it is the first of a branch without a parent's history, and
        no mode was decided. An earlier attempt or turn may have been recorded but never sent, because another process
        had just written or the client disconnected; then the model has not answered yet.
        """
        is_first = self.began.turn == 1 or not _has_model_words(self.read)
        return is_first and not self.branch.inherits and not self.branch.decided

    @property
    def is_last(self) -> bool:
        """Whether the branch continues from this request; a retry of an earlier turn leaves the branch unchanged."""
        return self.began.turn == self.branch.turns

    @property
    def went_back(self) -> bool:
        """Whether a rewrite covers the messages that the client still shares with its branch, so the history cannot be
        cut there.
        """
        wire = self.branch.wire
        return wire is not None and self.began.kept < wire.rewritten

    @property
    def goes_on_from(self) -> str:
        """The branch whose upstream history the request continues."""
        opened = self.opened
        if opened is not None and opened.inherits and opened.parent is not None:
            return opened.parent
        return self.began.branch

    @property
    def last(self) -> TurnBegan | None:
        """The first event of the previous turn, possibly of a parent branch; None without one."""
        known = self.before.branches.get(self.goes_on_from)
        return known.began if known is not None else None

    @cached_property
    def fresh_history(self) -> UpstreamHistory:
        """A history that begins with the client's messages, without their thinking."""
        return upstream_history.begin(self.read)

    @cached_property
    def fits(self) -> bool:
        """Whether the client's whole history probably fits the model's window."""
        model = self.read.fields.model
        estimator = self.session.memory.view_of(self.goes_on_from).estimator(model)
        return fits(self.read, estimator, stated=self.session.find_stated_window(model))


# Tariffs


def tariff_of(opening: Opening) -> Tariff:
    """The tariff of a request: the one that the server's settings name, otherwise the detected one."""
    return find_tariff(opening.branch.client_headers, opening.read, opening.settings)


def find_tariff(client: ClientHeaders | None, read: Transcript, settings: ServerSettings) -> Tariff:
    """The tariff of a request with these client headers."""
    credential = client.credential if client is not None else None
    hour = asks_for_an_hour(read)
    host, tariff = settings.provider_of(read.dialect.name, read.fields.model)
    seen = catalogue.find_tariff_name(credential, hour=hour, host=host, model=read.fields.model)
    return catalogue.tariff_of(tariff or seen)


# Mode of a branch

SETTINGS = ServerSettings()
"""Settings of a server without configuration."""


def depends_on_settings(opening: Opening) -> bool:
    """Whether the server's settings affect the request that is sent; otherwise only the client's own bytes go
    upstream.
    """
    asked = opening.asked or opening.default
    return asked is not Mode.OBSERVE or opening.branch.mode is not Mode.OBSERVE


def choose_mode(opening: Opening) -> tuple[Mode, SetMode | None]:
    """The branch's mode, and the command that sets it if this request decides it. For a branch that waits for its
    memory tools, ``late_tools`` decides when they are added.

    A managed branch stays managed until its user requests another mode, whatever the server's ``default`` is. Its tool
    budget is permanent: the tools stay the same whatever the settings of a later server are.
    """
    branch, wanted = opening.branch, opening.asked

    def set_to(mode: Mode, why: str, *, late: bool = False) -> tuple[Mode, SetMode]:
        return mode, set_mode(opening, mode, why, late=late)

    if opening.begins_branch:
        if (wanted or opening.default) is Mode.OBSERVE:
            return Mode.OBSERVE, None
        off = TURNED_OFF if wanted is Mode.BYPASS else ""
        why_not = _obstacle_at_first(opening) or off or why_too_expensive(opening)
        if why_not:
            return set_to(Mode.BYPASS if _holds_our_thinking(opening) else Mode.OBSERVE, why_not)
        if opening.takes_behind and opening.settings.tool_budget is None and not opening.settings.tell_repeats:
            return set_to(Mode.OBSERVE, UNTIL_EVICTED, late=True)
        return set_to(Mode.OBSERVE, TOO_SMALL, late=True) if _is_small(opening) else set_to(Mode.MANAGE, ASKED_FOR)
    if branch.mode is Mode.OBSERVE and wanted is Mode.MANAGE and opening.is_last and not branch.late:
        why_not = obstacle(branch.kind, opening.read) or why_too_expensive(opening)
        return (branch.mode, None) if why_not else set_to(Mode.OBSERVE, UNTIL_EVICTED, late=True)
    if branch.mode is Mode.OBSERVE and branch.late and branch.behind is not opening.takes_behind:
        return set_to(Mode.OBSERVE, UNTIL_EVICTED, late=True)
    if branch.mode is Mode.MANAGE and may_drop_thinking(opening.read):
        why = _why_no_longer(opening, wanted) or why_too_expensive(opening)
        if why is not None:
            return set_to(Mode.BYPASS, why if opening.fits else f"{why}; {NO_LONGER_FITS}")
    return branch.mode, None


def set_mode(opening: Opening, mode: Mode, why: str, *, late: bool) -> SetMode:
    """The command that sets the mode of a request's branch. A managed branch gets the tool budget of the settings."""
    behind = late and opening.takes_behind and (opening.branch.behind or mode is Mode.OBSERVE)
    budget = opening.settings.tool_budget if mode is Mode.MANAGE and not behind else None
    if budget is not None and tool_paging.loads_tools_itself(tool_paging.tools_of(opening.read)):
        budget, why = None, f"{why}; {ITS_CLIENT_PAGES}"
    return SetMode(
        at=opening.at,
        branch=opening.branch.name,
        mode=mode,
        why=why,
        tool_budget=budget,
        late=late,
        behind=behind,
    )


def _is_small(opening: Opening) -> bool:
    """Whether the memory tools would make the session too expensive if it ended with this request and nothing of the
    request was cached.
    """
    if opening.settings.manages_small:
        return False
    read, ledger, tariff = opening.read, count_observed(opening.session.ledger), tariff_of(opening)
    prompt, tools = count_with_tools(opening, Sizes())
    for cost in costs_of(tariff, read.fields.model, ledger, hour=asks_for_an_hour(read)):
        write = cost.write if is_remembered(read, tariff) else 1
        if cost.billed + (prompt + tools) * write > RULE.margin * (cost.shadow + prompt * write):
            return True
    return False


def count_with_tools(opening: Opening, sizes: Sizes) -> tuple[int, int]:
    """The estimated tokens of a request without its thinking, and those of the memory tools."""
    estimator = opening.session.memory.view_of(opening.goes_on_from).estimator(opening.read.fields.model)
    held = sizes.of(opening.fresh_history.messages, opening.read.dialect)
    return estimator.tokens(held + head_of(opening.read)), estimator.tokens(OWN_TOOLS)


def is_remembered(read: Transcript, tariff: Tariff) -> bool:
    """Whether the provider caches anything of a request."""
    return tariff.caching is Caching.PREFIX or bool(read.marked)


def _why_no_longer(opening: Opening, wanted: Mode | None) -> str | None:
    """The reason to stop managing a branch; None to continue."""
    if wanted in (Mode.OBSERVE, Mode.BYPASS):  # an observed request would contain thinking that fits another history
        return ASKED_FOR
    if memory_tools.collides(opening.read.fields.tool_names):
        return "the client has a tool of its own with the name of a memory tool"
    # The messages are not read again: sealed content, their only obstacle, shows the client no memory call.
    read = opening.read
    return read.dialect.find_obstacle(lambda key: None if key == read.dialect.array else read.member(key)) or None


def why_too_expensive(opening: Opening) -> str | None:
    """The reason why the cost so far rules out managing; None if it does not, or the tariff is not billed."""
    why = why_to_stop(opening.session.ledger)
    return why if why is not None and tariff_of(opening).is_billed else None


def may_be_managed_elsewhere(opening: Opening) -> bool:
    """Whether another process may manage the conversation of this request: it contains model output, and its branch is
    new here or still waits for its memory tools.
    """
    return (opening.opened is not None or opening.branch.late) and _has_model_words(opening.read)


def mode_without_us(opening: Opening) -> SetMode | None:
    """The command that sets the mode of a branch whose request is passed through or sent as a fallback: a new branch is
    never managed then, unless its memory tools may join later. None if this request decides no mode, or the branch is
    not to be managed.
    """
    mode, command = choose_mode(opening)
    if not opening.begins_branch:
        return command if mode is Mode.OBSERVE else None
    if command is not None and mode is Mode.MANAGE:
        return attrs.evolve(command, mode=Mode.OBSERVE, why=TOO_LATE, tool_budget=None)
    return command


def obstacle(kind: BranchKind, read: Transcript) -> str:
    """The reason why a branch with such a request cannot be managed, in any state; empty if it can."""
    if not kind.is_agent_context or read.opaque is not None:
        return "it is not a conversation of an agent with tools"
    return obstacle_in(read)


def obstacle_in(read: Transcript) -> str:
    """The reason why a conversation with such a request cannot be managed; empty if it can."""
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
    """Whether a request contains model output."""
    return any(message.role == "assistant" for message in read.messages)


def _obstacle_at_first(opening: Opening) -> str:
    """The reason why a branch that begins with this request is not managed; empty if it is.

    A client that changes its first message, as Claude Code does with another CLAUDE.md or another kind of model, begins
    a new branch with the history of a managed one.
    """
    branch, branches = opening.branch, opening.session.branches.values()
    goes_on = _has_model_words(opening.read)
    known = branch.kind is BranchKind.SUCCESSOR or any(
        other.mode is Mode.MANAGE and other.conversation == branch.conversation for other in branches
    )
    return obstacle(branch.kind, opening.read) or ("its history began without us" if goes_on and not known else "")


def _holds_our_thinking(opening: Opening) -> bool:
    """Whether a request that begins a branch may contain thinking that was signed for a history of the proxy's."""
    read, branches = opening.read, opening.session.branches.values()
    if read.opaque is not None or all(each.mode is Mode.OBSERVE for each in branches):
        return False
    return upstream_history.holds_thinking(upstream_history.verbatim(read.list_elements(), read.dialect))


# Continuing a history


def place_tools(opening: Opening, history: UpstreamHistory, *, behind: bool) -> UpstreamHistory:
    """The history of a managed branch with the memory tools ``behind`` the cached head, if the model takes them there;
    otherwise without them.
    """
    form = history.dialect.behind
    takes = behind and form is not None and form.takes(opening.read.fields.model or "")
    return upstream_history.with_tools(history) if takes else upstream_history.without_tools(history)


def go_on(opening: Opening, prior: UpstreamHistory, mode: Mode) -> UpstreamHistory:
    """The history that continues the previous one."""
    kept = min(opening.began.kept, len(prior.ends))
    hidden = memory_tools.NAMES if mode is Mode.MANAGE else frozenset()  # otherwise the client sees all rounds
    return upstream_history.go_on(prior, kept, opening.read.list_elements(kept), hidden)


def shows_again(opening: Opening, mode: Mode, *, switched: bool) -> bool:
    """Whether a branch that is no longer managed would have to send its client's full history, which its model does not
    take: then the objects that it showed before are rendered once more.
    """
    return mode is Mode.BYPASS and (switched or opening.went_back) and not opening.fits


def go_on_unplanned(opening: Opening, prior: UpstreamHistory, mode: Mode, *, switched: bool) -> UpstreamHistory:
    """The history of a request without a plan. If the mode is ``switched`` with it, or the client went back to before
    the last rewrite, it starts again from the client's full history.
    """
    if not switched and not opening.went_back:
        return go_on(opening, prior, mode)
    keep_thinking = not switched and not epochs.may_drop_thinking(opening.read)
    return upstream_history.begin(opening.read, epoch=prior.epoch + 1, keep_thinking=keep_thinking)


# Fallback


def without_thinking(read: Transcript) -> bytes | None:
    """The client's request without thinking, which a provider may have bound to another history; None if it has none or
    must keep it: then the client's own bytes are sent.
    """
    if read.opaque is not None or not may_drop_thinking(read):
        return None  # models that require it do not bind it to the history
    if not upstream_history.holds_thinking(upstream_history.verbatim(read.list_elements(), read.dialect)):
        return None
    return upstream_history.body(read, upstream_history.begin(read), ())


def fits(
    read: Transcript, estimator: Estimator | None = None, *, most: int | None = None, stated: int | None = None
) -> bool:
    """Whether a request without thinking fits its model's window with a margin, and is at most ``most`` tokens.
    ``stated`` is as in ``window_size.find_model_window``.
    """
    window = find_model_window(read.fields.model, stated)
    allowed = window - window // RESERVE
    return count_tokens(read, estimator) <= (allowed if most is None else min(most, allowed))


def count_tokens(read: Transcript, estimator: Estimator | None = None) -> int:
    """The estimated tokens of a request without its thinking."""
    estimator = estimator or Estimator.of(read.fields.model)
    messages = upstream_history.begin(read).messages
    return estimator.tokens(Sizes().of(messages, read.dialect) + head_of(read))
