"""All read models.

To add one, write a file with a ``Projection`` and add its name to ``ALL``; `docs/projections.md` shows the steps.
"""

from mnemosyne.errors import NotFound
from mnemosyne.projections.daily_spending import BUDGET
from mnemosyne.projections.directory import DIRECTORY
from mnemosyne.projections.object_index import OBJECT_INDEX
from mnemosyne.projections.projection import Projection
from mnemosyne.projections.savings import SAVINGS
from mnemosyne.projections.timeline import TIMELINE
from mnemosyne.projections.usage import USAGE
from mnemosyne.projections.working_set import WORKING_SETS

ALL: tuple[Projection, ...] = (TIMELINE, USAGE, WORKING_SETS, SAVINGS, DIRECTORY, BUDGET, OBJECT_INDEX)


def find(name: str) -> Projection:
    """Return the projection of this name. Raises NotFound."""
    for projection in ALL:
        if projection.name == name:
            return projection
    names = ", ".join(projection.name for projection in ALL)
    raise NotFound(f"There is no read model {name!r}; valid are {names}.")
