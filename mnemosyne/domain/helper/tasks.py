"""All background tasks by name."""

from collections.abc import Mapping
from typing import Any

from mnemosyne.domain.helper.audit import CHECK_PROMISES
from mnemosyne.domain.helper.background import BackgroundTask
from mnemosyne.domain.helper.caption import CAPTION
from mnemosyne.domain.helper.facts import FIND_FACTS
from mnemosyne.domain.helper.goal import FIND_GOAL
from mnemosyne.domain.helper.session_summary import SUMMARIZE_SESSION
from mnemosyne.domain.helper.summarize import COMPRESS, SUMMARIZE
from mnemosyne.domain.helper.utility import SCORE_OBJECTS

BACKGROUND_TASKS: Mapping[str, BackgroundTask[Any, Any]] = {
    each.name: each
    for each in (
        SUMMARIZE,
        COMPRESS,
        CAPTION,
        CHECK_PROMISES,
        SCORE_OBJECTS,
        FIND_GOAL,
        FIND_FACTS,
        SUMMARIZE_SESSION,
    )
}
