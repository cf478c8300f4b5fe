"""The task that writes an object's L2 from its L1.

Without a helper model there is no L2: the next form below an L1 is the stub.
"""

from mnemosyne.domain.helper.background import BackgroundTask
from mnemosyne.domain.helper.model import HelperPrompt
from mnemosyne.domain.helper.summarize import PROPERTIES, RULES, SummaryInputs, apply, gather, verify, write_request
from mnemosyne.domain.helper.task import HelperTask
from mnemosyne.domain.text.entities import key_entities

_NAMES = 40

_INSTRUCTIONS = f"""\
You shorten a summary of what a coding agent has read or written to its most useful facts: what it was about, what \
resulted from it, what was decided. Write at least one whole sentence. The names in the original are listed; use only \
those that matter.
{RULES}"""


def _prompt(inputs: SummaryInputs) -> HelperPrompt:
    names = "\n".join(key_entities(inputs.full, _NAMES))
    texts = [("source", inputs.detailed or ""), ("names in the original", names)]
    return write_request(_INSTRUCTIONS, inputs.request, texts, inputs.deferred.lines)


COMPRESS = BackgroundTask(
    task=HelperTask(name="compress", version=2, properties=PROPERTIES, prompt=_prompt, verify=verify),
    gather=lambda order, found: gather(order, found) if "detailed" in found else None,
    apply=apply,
)
