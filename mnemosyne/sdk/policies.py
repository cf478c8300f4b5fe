"""What a policy of one's own is made of: docs/internals/policies.md.

A policy is a pure function ``(situation, candidates) -> Plan | None``.
"""

from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.window.ages import Candidate
from mnemosyne.domain.window.planning import Candidates, Plan, Situation
from mnemosyne.domain.window.policies import is_conversation, lower, plan_of

__all__ = ["Candidate", "Candidates", "Fidelity", "Plan", "Situation", "is_conversation", "lower", "plan_of"]
