"""No code that this node can show is without words for a person."""

from agent.state.node_state import StateCause
from agent.state.waiting import TOO_FAR_AHEAD, TOO_MANY_WAIT
from holdfast.node.explanations import ANSWERS, CAUSES, meaning
from snapshot.degraded import GateReason
from snapshot.reasons import Reason


def test_every_cause_of_a_state_is_explained():
    """rules A2..A8."""
    assert {str(cause) for cause in StateCause} <= CAUSES.keys()


def test_every_answer_of_the_gate_is_explained():
    explained = ANSWERS.keys() | CAUSES.keys() | {"ok"}
    assert {str(reason) for reason in GateReason} <= explained


def test_every_rejection_is_explained():
    for reason in Reason:
        assert meaning(reason).startswith(f"{reason}. ")
        assert len(meaning(reason)) > 40
    assert "validator" in meaning("validator_refused")
    assert "holdfast explain SCOPE shows what it said" in meaning("validator_refused")
    for code in (TOO_FAR_AHEAD, TOO_MANY_WAIT):
        assert "valid_from" in meaning(code)
        assert len(meaning(code)) > 40
    assert meaning("some_new_code") == "some_new_code"
