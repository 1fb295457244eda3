"""No code that this node can show is without words for a person."""

from agent.state.own_bounds import TOO_FAR_AHEAD
from holdfast.node.explanations import answer_text, cause_text, is_cause, join_text, meaning, service_text, store_text
from snapshot.degraded import GateReason


def test_a_rejection_is_told_with_meaning_and_remedy():
    assert meaning("raw_secret").startswith("raw_secret. A section holds a secret itself. Replace it by")
    assert "holdfast explain SCOPE` shows what it said" in meaning("validator_refused")
    assert "valid_from" in meaning(TOO_FAR_AHEAD)
    assert meaning("some_new_code") == "some_new_code"


def test_an_answer_of_the_gate_is_told_in_its_own_words_and_else_in_the_states():
    assert all(answer_text(reason) for reason in GateReason)
    assert answer_text("revoked") != cause_text("revoked")
    assert service_text("revoked") == cause_text("revoked")
    assert answer_text("not_enrolled") == cause_text("not_enrolled")
    assert answer_text("some_new_code") is None


def test_a_refused_join_is_told_in_whoevers_words_there_are():
    """rules J7: the node's own, the coordinator's, those of a connection, and of the store"""
    for code in ("roots_not_pinned", "token_used", "tls_failed", "store_full"):
        assert "journal" not in join_text(code)
    assert join_text("status_502") == "see the journal of holdfast-agent"


def test_what_is_not_known_is_in_the_journal():
    assert is_cause("head_expired")
    assert not is_cause("some_new_code")
    assert cause_text("some_new_code") == store_text("some_new_code") == "see the journal of holdfast-agent"
