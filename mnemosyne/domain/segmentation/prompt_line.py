"""What a person typed at the prompt, known by what it is and not by what it is not.

Nobody can list all that a file, a mail or a page may look like. What people type to an agent to settle something is
one kind of text: a line of plain English, in which they speak for themselves or to the agent, from its first word to
its last. Only that is somebody's own decision. A text with a second line, a mark that is not of prose, a word of
another language, or a word for what others say is data, all of it: who wrote the one part may have written the other.
These last are lists of words, and never whole: they are the second line of defence, behind what a line has to be.
Linear in the text's length, which is bounded.
"""

import re

from mnemosyne.domain.segmentation.own_words import MASK, Paragraph

# A line that somebody may have typed

_LONGEST = 1_000
"""Characters."""

_NAMES = re.compile(
    r"(?<![^\s(/])(?:`[^`]{1,160}`|\"[^\"]{1,160}\"|\u201c[^\u201c\u201d]{1,160}\u201d|"
    r"'[^\s'](?:[^']{0,80}[^\s'])?')(?![^\s).,;!?/:])"
)
"""What is quoted as a name: between two marks that stand outside of words."""

_SAYS = re.compile(r"[.!?](?:\s|\W*\Z)|[:;]\s|\A\s|\s\Z")
"""Of what is quoted: it is no name, but says something."""

_TYPED = re.compile(rf"(?:[A-Za-z0-9 .,;:!?'()/_%&+=-]|{MASK}|(?<=-)>|~(?=/))*\Z")


def read_line(text: str) -> Paragraph | None:
    """The one line that a text is, if somebody may have typed it; ``said`` of it has what is quoted as names masked."""
    if len(text) > 2 * _LONGEST:
        return None
    end = len(text.rstrip())
    if not 0 < end <= _LONGEST or len(text[:end].splitlines()) != 1:
        return None
    line = text[:end].replace("\u2019", "'")
    if MASK in line or any(_SAYS.search(quoted[0][1:-1]) for quoted in _NAMES.finditer(line)):
        return None
    said = _NAMES.sub(lambda found: MASK * len(found[0]), line)
    return Paragraph(0, end, said, is_item=False) if _TYPED.match(said) else None


# Whose voice it is

_PERSONS = re.compile(
    r"\b(?:i|i'd|i'm|i'll|i've|we|we're|we'll|we've|we'd|let's|lets|my|our|me|us|you|you're|your|please|pls|don't|dont|"
    r"do not)\b"
)
"""Words of who speaks for themselves, or to somebody."""

_BEGIN = """
yes yeah yea yep yup no nope nah ok okay and but so also then now if when once since for instead actually hm hmm ah oh
well right wait sorry can could would should is are do does did isn't aren't doesn't what how why where which just only
keep use never always make remember not thanks great good perfect nice sure cool rather like or better in it's
go drop remove skip avoid rename switch stick ignore prefer thinking again anyway
"""
_OPENERS = frozenset(_BEGIN.split())
"""Words with which somebody begins to speak."""

_JUDGES = re.compile(
    r"(?:that|this|it|these|those|the \w+(?: \w+)?)(?:'s| is| are| looks?| works?| does ?n[o']t| is ?n[o']t)"
    r" (?:just |only |not |still |also |really |too |way |fully |quite )*"
    r"(?:good|great|fine|wrong|better|ok|nice|bad|correct|right|perfect|incorrect|broken|confusing|much|big|true|done)\b"
)
_SUBJECT = r"(?:the|our|all|every|each|any|no|it|they|this|there) (?:[a-z'-]+ ){0,4}"
_MUST = re.compile(
    r"(?:must(?:n't)?|should(?:n't)?|shall|can(?:not)?|may|needs? to|ha(?:s|ve) to|(?:is|are) (?:not )?allowed)\b"
)
_RULES = re.compile(f"{_SUBJECT}{_MUST.pattern}|(?:from now on|on second thought|scratch that)\\b")
"""Of something, what it must be."""
_COMMON = """
the a an to it was of on at with this that these those there we i you my our your me us let's lets don't dont can't must
need needs want wants by all any have has had who will won't i'd i'm i'll i've we'd we'll we've you'll please more one
than too think
"""
_ENGLISH = _OPENERS | frozenset(_COMMON.split())
_LEAST_ENGLISH = 0.25
_WORD = re.compile(r"[a-z']+")

_LABELS = _OPENERS | frozenset(
    ("thing", "things", "question", "quick", "one", "two", "more", "last", "mind", "point", "minor", "please")
)
_SETTLES_FIRST = re.compile(
    r"\W*(?:\w+ ){0,3}?(?:i|we)(?:'ve| have)? (?:changed|decided|agreed|settled|think|want|prefer|mean|meant|need)\b"
)


def is_own_voice(clause: str) -> bool:
    """Whether words of a line are of somebody who speaks for themselves, in English."""
    folded = clause.casefold()
    spoken = _WORD.findall(folded)
    if not spoken:
        return MASK not in clause
    begun = spoken[0] in _OPENERS or any(each.match(folded) for each in (_JUDGES, _RULES))
    if not begun and not _PERSONS.search(folded):
        return False
    if sum(word in _ENGLISH for word in spoken) < _LEAST_ENGLISH * len(spoken):
        return False
    return all(map(_is_own_label, folded.split(": ")[:-1]))


def _is_own_label(label: str) -> bool:
    """Whether words before a colon are some with which people begin, and not the name of who speaks, or of a text."""
    return all(word in _LABELS for word in _WORD.findall(label)) or _SETTLES_FIRST.match(label) is not None


def is_spoken(line: Paragraph) -> bool:
    """Whether all of a line is of somebody's own voice; a number ends a sentence here, too."""
    return all(map(is_own_voice, _FULL_STOP.split(line.said)))


# Signs of others, wherever they stand

_MARKS = re.compile(
    rf"\w{{40}}|://|\w:\d|[=_+&%]{{2}}|(?<!\S)[=_&%](?!\S)|[:;,]\Z|\s[.;:,]\s|\A\s{{2}}|\A\W*[A-Z]{{2,}}\b(?!\()"
    rf"|\A[^A-Za-z{MASK}]|\A\w[.)]\s|\A(?:i\.e|e\.g)\b|{MASK}\s+[A-Z][a-z]|\d\s-\s|--(?!\w)|->\Z|\s/\s\w+\Z|\.\.\.?\w|'\Z|[.!?][,:;)]|[.!?]\s+[^\w\s{MASK}('-]|::\s|\?\?\?|!\?|\?!|\s//?[A-Za-z]+\Z|\w\([A-Za-z]+\s"
    rf"|\A{MASK}+\W+(?:ok|yes|no|let's|we|i|please|never|always|use|don't|do not)\b"
)
"""What prose that is typed does not have: of code, listings, logs, lists, addresses."""

_LEADS_ON = (
    r"(?:and|but|so|then|also|because|since|that|though|if|now|instead|actually|just|yes|no|ok|okay|mind|think|mean|like|"
    r"hmm|yeah|where|when|how|what|only|rather|or|case|first|anyway|well|wait|sorry|too|please)"
)
_OTHERS = re.compile(
    r"\b(?:says|said|saying|tells|wrote|writes|written (?:by|there)|stated|claimed|reads|noted|mentioned|replied|"
    r"(?:states|claims|mentions|replies|comments|posts|reports|requests)(?: that\b|:|,)|\d (?:replies|comments|likes)|"
    r"commented|posted|quot(?:e|es|ed|ing)|reported|insist(?:s|ed)?|thinks|wants|prefers|believes|feels|hopes|argues|"
    r"asks|asked|advis\w+|(?<!second )thought|demand(?:s|ed)|propos(?:es|ed)|suggest(?:s|ed)|recommend(?:s|ed)|"
    r"requested|announce[sd]?|according|sent from|forward(?:ed|ing)|fwd|fw|past(?:ed|ing|es)|copied|excerpt|verbatim|"
    r"translat\w+|"
    r"paraphrase\w*|rephrase\w*|proofread\w*|grammar|spelling|signed|regards|cheers|sincerely|greetings|via|printed|"
    r"the answer|appears? (?:in|on)|shows? up|what an?|(?:does|do|did) (?:that|this|it|they) mean|"
    r"(?:this|that)(?:'s| is) (?:what|from)|is (?:this|that|it) (?:true|real|legit|serious|spam|a scam)|"
    r"cc|wtf|if only|my words|they say|story goes|kidding|joking|"
    r"(?:yesterday|today) at|(?:hours?|minutes?|days?|weeks?) ago|"
    r"p\. \d|(?:ignore|agree with|summari[sz]e|explain|found) (?:that|this|it))\b"
    r"|\b(?:best|thx|thanks|yours|love),? \w+\W*\Z"
    r"|\b(?:edited|reply|share|(?:show|read) more|(?:have|has) it|it read|see \w+)\W*\Z"
    r"|\binstead (?!of|for|in|on|and|but|we|i|to|when|if|with|so|because|since|then|as)\w+"
    r"|\b[a-z]+\.(?:txt|md|pdf|log|csv)\Z|\bdo(?: not|n't) \w+ (?:that|this|it)\W*\Z"
    rf"|\b(?!{_LEADS_ON}\b)[a-z]+ (?:let's|we'll|i'll|i'd|i hate|i prefer|i think|no wait|never ever)(?!\w)"
    r"|\b(?!(?:and|but|so|hm|hmm|oh|ah|since)\b)[a-z]+ (?:ok|okay|yes|yeah|yep) (?:i|we|you|let's|use|please|no)\b"
)
"""Words for what others said, and for what is to be done with a text."""

_ELSEWHERE = """
der das und ist nicht ein eine einen mit auf im steht sagt schreibt hier wir ich sie es von zu dem den laut heisst
le les une est dit pas qui dans avec elle nous vous je selon ceci voici c'est el los las dice con por para
esto eso aqui segun una del il lo gli che detto dice scritto ecco questo uma diz nao isso os het een zegt niet dat
wij jest mowi pisze nie det och inte sier siger gesagt geschrieben meint zufolge ve bir diyor ben bu gruss saludos
saluti cordialement mfg
pozdrawiam abrazo hilsen groetjes bisous
ella zei ze hun dedi disse ele lui sagte
"""
_FOREIGN = frozenset(_ELSEWHERE.split())
"""Words of other languages that stand in nearly all their sentences, and are none of English."""

_I = ("i", "i'")
_MEET = re.compile(
    rf"(?<=[A-Za-z0-9,;){MASK}] )(?:"
    rf"{'|'.join(sorted(each.capitalize() for each in _ENGLISH if each[:2] not in _I))})\b"
)
"""A word that begins a sentence within another: there two texts meet."""

_ENDS_WITH_ONE = re.compile(
    r"(?:\s[-~]+\s*|,\s+|\()(?!I\b)[A-Z][\w.]*(?:\s[A-Z][\w.]*)?\)?[.!]?\Z|\s-\s\w+(?: \w+){0,3}\W*\Z"
    r"|\([^()]{1,30}\)\W*\Z|[A-Z][a-z]+ (?:out|[A-Z]{4,})\W*\Z|\s(?:BR|KR|LG|VG|MFG|EOF|END|lol|L\d+)\W*\Z"
    r"|(?<!\bthe)(?<!\bour)(?<!\bin) README\W*\Z|[.!?]\s+or\s\w+\?\Z"
)
"""A name, an initial, a mark of an end or a question of a few words, behind what is settled."""
_MAY_PRECEDE = """
to be use with in of the a an for and or from by is on as not only like instead than our my this that into using
remove drop add keep new want have between prefer support also call per no make it's old whole proper
"""
_BEFORE_A_NAME = frozenset(_MAY_PRECEDE.split())
"""Words behind which a name may end what is said."""

_MOST_NAMES = 2
_SHORT_FORM = re.compile(r"(?!(?:BR|KR|LG|VG|MFG|FYI|PPS|PS|EOF|EOT|END|TODO|NB|LGTM)\b)[A-Z]{2,}s?")
"""Capitals that may end what is settled ("we use SQL"), and are none with which mails and files do."""


_REASON = re.compile(r", because [^.!?]*")
"""Why somebody settles something, which may be what others want."""


def is_data(line: Paragraph) -> bool:
    """Whether a line has signs of what others wrote, wherever they stand."""
    said, folded = line.said, line.said.casefold()
    parts = _FULL_STOP.split(said)
    if said.count("(") != said.count(")") or any(map(_looks_back, parts[1:])):
        return True
    marked = (
        any(each.search(said) for each in (_MARKS, _ENDS_WITH_ONE, _MEET))
        or _OTHERS.search(_REASON.sub("", folded)) is not None
    )
    return marked or not _FOREIGN.isdisjoint(_WORD.findall(folded)) or _is_signed(said)


def _is_signed(said: str) -> bool:
    """Whether names stand behind what is said that are no part of it."""
    words = said.rstrip(" .!").split()
    named = len(words)
    while named and words[named - 1][0].isupper() and not _SHORT_FORM.fullmatch(words[named - 1]):
        named -= 1
    behind = words[named - 1].casefold() not in _BEFORE_A_NAME or len(words) - named > _MOST_NAMES
    return 0 < named < len(words) and behind


# Signs of others before and behind what is settled

_TELLERS = re.compile(
    r"\b(?:examples?|instance|imagine|suppose|i get|i see|say|ask|tell|told|hear|heard|saw|seen|show\w*|found|finds?|"
    r"got|receiv\w+|sen[dt]\w*|came|comes|arrived|e-?mails?|mails?|messages?|tickets?|threads?|slack|teams|discord|jira|"
    r"chats?|wiki|confluence|notion|readme|articles?|blogs?|memos?|transcripts?|meetings?|minutes|rfc|letters?|books?|"
    r"papers?|pdfs?|screenshots?|captions?|snippets?|clipboard|attach\w*|following|here|here's|source|author|means|"
    r"summari[sz]\w+|"
    r"instructions?|reviewers?|colleagues?|boss|manager|customers?|vendor|someone|somebody|they|he|she|her|his|him|their|"
    r"everyone|people|guy|tool|look|looks|looking|read|review|words|put it|react|happens|input|spoke|"
    r"previous\w*|earlier|check out)\b"
    r"|\.(?:md|txt|html?|pdf|log|csv|docx?)\b"
)
"""Words for texts, for those who write them, and for how one comes by them."""

_TEXTS = re.compile(
    r"\b(?:docs?|documents?|documentation|files?|pages?|sites?|web\w*|logs?|outputs?|console|terminal|notes?|"
    r"conversations?|spec|images?|pictures?|photos?|texts?|lines?|paragraphs?|sentences?|strings?|sections?|headers?|"
    r"titles?|tables?|below|above|links?|urls?|templates?|prompts?|reviews?|feedback|summary|team|support|server|entry|"
    r"comments?|issues?|descriptions?)\b"
)
"""The same, of what people who program speak of all day: only right before what is settled."""

_ABOUT = re.compile(rf"{_SUBJECT}\Z")
_NEAR = 12
"""Words."""

_SOMEBODY = re.compile(r"(?<=[a-z,] )(?!(?:I|Claude)\b)[A-Z][a-z]+\b(?!\.\w)")
_BREAKS_IN = re.compile(
    r"(?:\A|[,;.!?)] |\b(?:and|but|so|then|also|because|since|that|though|if|now|instead|actually|just|yes|no|ok|okay|"
    r"mind|think|mean|like|hmm|yeah|where|when|how|what|only|rather|or|is|not|mostly|sure|feel|this|it|case|first|"
    r":)\W{1,3})\Z"
)
"""How words end behind which somebody may begin to speak for themselves."""

_FULL_STOP = re.compile(r"(?<=[.!?])\s+(?=\S)")
_POINTS = re.compile(r"\b(?:this|that|these|those|it)\b")
_SHORT = 8
"""Words."""

_APPROVAL = re.compile(
    r"\b(?:make sense|ok(?:ay)?|right|possible|fine|clear|easy|can you|could you|do you|would|change|think)\b"
)
"""Of a question about something: words for whether it is good, and not for what it is."""


def leads_to_others(told: str, before: str, others: str) -> bool:
    """Whether words that stand before ``others`` tell of a text, whose words these may be: of the sentences that were
    ``told`` before, and of the same sentence.
    """
    if any(map(_asks_about_it, _FULL_STOP.split(told))):
        return True
    if _TELLERS.search(f"{told} {before}".casefold()) or _SOMEBODY.search(before):
        return True
    near = " ".join(f"{_FULL_STOP.split(told)[-1]} {before}".casefold().split()[-_NEAR:])
    if _TEXTS.search(near):
        return True
    if _ABOUT.match(before.casefold()) and _MUST.match(others.casefold()):
        return False
    return not _BREAKS_IN.search(before.casefold()) or not is_own_voice(before)


def _asks_about_it(sentence: str) -> bool:
    """Whether a sentence is a short question about something that it points at."""
    return (
        sentence.endswith("?") and len(sentence.split()) <= _SHORT and _POINTS.search(sentence.casefold()) is not None
    )


def _looks_back(said: str) -> bool:
    """Whether a sentence behind others tells where they are from, or asks what they are and not if they are good."""
    folded = said.casefold()
    if _BACK.match(folded) and len(folded.split()) <= _SHORT and (_TELLERS.search(folded) or _TEXTS.search(folded)):
        return True
    return _asks_about_it(said) and _APPROVAL.search(folded) is None


_BACK = re.compile(r"\W*(?:it|it's|this|that|that's|these|those|from|in|on|at|not|see|i)\b")
"""How a sentence begins that looks back at what stands before it."""
