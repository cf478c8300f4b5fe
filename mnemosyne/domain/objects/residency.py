"""What of an object a window shows word for word: one rule for all who must not show it a second time."""

from mnemosyne.domain.objects.aggregate import MemoryObject, find_saying
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.kinds import keeps_prompt
from mnemosyne.domain.objects.memory import Memory


def stands_in_full(memory: Memory, branch: str, object_id: str) -> bool:
    """Whether a branch's window shows all that an object says: the object itself, or that in which a claim was said.

    What the user said stays as it was said, whatever becomes of the object that holds it (``kinds.keeps_prompt``).
    """
    each = memory.objects[object_id]
    holder = find_saying(each)
    if holder is None:
        return memory.view_of(branch).fidelity_of(object_id) is Fidelity.FULL
    of_user = keeps_prompt(each.tags) and holder in memory.objects and is_prompt(memory, branch, memory.objects[holder])
    return of_user or memory.view_of(branch).fidelity_of(holder) is Fidelity.FULL


def is_prompt(memory: Memory, branch: str, each: MemoryObject) -> bool:
    """Whether an object holds what the user said, and a branch's window still shows that."""
    return keeps_prompt(each.tags) and not each.forgotten and each.id not in memory.view_of(branch).before
