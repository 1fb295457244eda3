"""Every reason is explained, with something to do."""

import pytest

from snapshot.reasons import Reason
from snapshot.remedies import EXPLANATIONS


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_a_meaning_and_a_remedy(reason: Reason) -> None:
    """rules P10: codes are stable, and each is told in words."""
    explanation = EXPLANATIONS[reason]
    assert explanation.meaning.endswith(".")
    assert explanation.remedy.endswith(".")
    assert explanation.meaning != explanation.remedy
