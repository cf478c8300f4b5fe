"""Claims in the user's prompts: where they are, and whether a person typed them.

A prompt may contain what others wrote: the user pastes mails and pages. No client marks every paste, so a claim of a
prompt is not the user's word before the user confirms it. The one exception is the command ``remember``, or a word that
the user set for it, in a prompt that a person typed.
"""

import re
from functools import cache

import attrs

from mnemosyne.domain.knowledge.entry_text import has_no_other_words, is_same
from mnemosyne.domain.knowledge.events import Provenance
from mnemosyne.domain.knowledge.kinds import EntryKind
from mnemosyne.domain.segmentation.authors import find_answered, list_prompt_blocks
from mnemosyne.domain.session import sanitize
from mnemosyne.domain.session.events import SubmittedBlock
from mnemosyne.domain.wire import blocks
from mnemosyne.domain.wire.client_texts import unwrap_prompt
from mnemosyne.domain.wire.transcript import Transcript

LONGEST_TYPED = 500
"""Characters of a line; a longer one counts as pasted."""

REMEMBER = ("remember",)


@cache
def _command(commands: tuple[str, ...]) -> re.Pattern[str]:
    """The command at the beginning of a prompt, and its argument: the rest of the line. ``opencode run`` 1.18.33 puts a
    prompt of several words in quotation marks. No space follows the full-width punctuation of Chinese and Japanese.
    """
    named = "|".join(map(re.escape, sorted(commands, key=len, reverse=True)))
    return re.compile(
        rf'\A\s*+"?+(?:{named})(?:[^\S\n]++that)?+(?:[:,]?+[^\S\n]++|[\uff1a\uff0c])(\S[^\n]*+)', re.IGNORECASE
    )


_MARKS = (
    '"`\u00ab\u00bb\u2018\u201a-\u201f\u2039\u203a\u275b-\u275e\u2e42\u3008-\u300f\u301d-\u301f\ufe41-\ufe44\uff02'
    "\uff62\uff63"
)
"""Quotation marks, as Unicode and Markdown define them; which of them open a quotation depends on the language."""

_OPENS = re.compile(rf"[{_MARKS}]|(?<!\w)['\u2019\uff07]")
_CLOSES = re.compile(rf"[{_MARKS}]|['\u2019\uff07](?!\w)")
"""Quotation marks. Apostrophes are within a word."""


@attrs.frozen(kw_only=True)
class LearnedFact:
    """A claim, and the characters of the prompt that state it. ``corrects`` is the id of an entry that it replaces.
    ``proposed``: it is a proposal in the agent's reply before the prompt, which accepts it; its characters are there.
    """

    kind: EntryKind
    text: str
    start: int
    end: int
    corrects: str | None = None
    proposed: bool = False


@attrs.frozen(kw_only=True)
class SubmittedPrompt:
    """A prompt and its turn. ``answered`` is the agent's reply before it. ``vouched``: a hook reported that the user
    submitted it; ``interactive``: a person was at the client.
    """

    text: str
    provenance: Provenance
    answered: str = attrs.field(default="", repr=False)
    vouched: bool = True
    interactive: bool = False

    def has(self, fact: LearnedFact) -> bool:
        """Whether a claim is in this prompt, or in the reply before it: a helper model may be wrong about that."""
        return fact.start >= 0 and is_same(fact.text, self._source(fact)[fact.start : fact.end])

    def find_context(self, fact: LearnedFact) -> str:
        """The line that contains a claim, as far as a typed prompt could contain it; empty if it is nothing else."""
        source = sanitize.text(sanitize.blank_private(self._source(fact)))  # before it is cut, so that no half remains
        before = source[max(0, fact.start - LONGEST_TYPED) : fact.start].rpartition("\n")[2]
        after = source[fact.end : fact.end + LONGEST_TYPED].partition("\n")[0]
        return f"{before}{source[fact.start : fact.end]}{after}" if before.strip() or after.strip() else ""

    def confirms(self, fact: LearnedFact, context: str) -> bool:
        """Whether a person states in this prompt a claim that was found in another ``context`` before. A prompt without
        other words may be pasted from the same text.
        """
        typed = not fact.proposed and self.is_typed(fact.start, fact.end)
        return typed and not has_no_other_words(self.text, context)

    def _source(self, fact: LearnedFact) -> str:
        return self.answered if fact.proposed else self.text

    def is_typed(self, start: int, end: int) -> bool:
        """Whether a person typed these characters, as far as the form of the prompt shows: it is one line, neither
        fenced nor quoted.
        """
        text = self.text.strip()
        return (
            self.vouched
            and self.interactive
            and len(text.splitlines()) == 1
            and len(text) <= LONGEST_TYPED
            and not text.startswith(">")
            and "```" not in text
            and not (_OPENS.search(self.text, 0, start) and _CLOSES.search(self.text, end))
        )


def read_prompt(read: Transcript, submitted: SubmittedBlock | None, provenance: Provenance) -> SubmittedPrompt | None:
    """The new prompt of a request: the ``submitted`` block, or else the last block that the user may have written; None
    without one.
    """
    if submitted is not None:
        text = unwrap_prompt(blocks.text_of(read.blocks(submitted.message)[submitted.block]))
        answered = find_answered(read, submitted.message)
        return SubmittedPrompt(text=text, answered=answered, provenance=provenance, interactive=submitted.interactive)
    found = next(list_prompt_blocks(read), None)
    if found is None or not blocks.is_prompt(read.messages[found[0]].role, read.blocks(found[0])):
        return None
    return SubmittedPrompt(text=found[2], provenance=provenance, vouched=False)


def find_remembered(text: str, commands: tuple[str, ...] = REMEMBER) -> LearnedFact | None:
    """The text that a prompt beginning with one of these commands asks to remember."""
    found = _command(commands).match(text) if commands else None
    if found is None:
        return None
    words = found[1].rstrip()
    if text.lstrip().startswith('"'):
        words = words.partition('"')[0].rstrip()
    start = found.start(1)
    return LearnedFact(kind=EntryKind.FACT, text=words, start=start, end=start + len(words)) if words else None
