"""Events of objects that only earlier versions made."""

from mnemosyne.domain.objects.events import ObjectSuperseded, Supersession
from mnemosyne.domain.objects.kinds import Role
from mnemosyne.domain.objects.retired import find_retired, is_retired
from tests.domain.remembered import made


def test_only_claims_and_their_supersessions_are_retired() -> None:
    claim, other = made("c", 1, role=Role.CLAIM, places=()), made("o", 1)
    revised = [
        ObjectSuperseded(at=1, object="x", branch="main", by=by, how=Supersession.REVISED) for by in ("c", "o", None)
    ]
    retired = find_retired([claim, other, *revised])
    assert retired == {"c"}
    assert [is_retired(each, retired) for each in (claim, other, *revised)] == [True, False, True, False, False]
