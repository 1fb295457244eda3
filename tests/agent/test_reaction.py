"""Every reason has a reaction, and no reaction is without a reason."""

from agent.state.reaction import REACTION, Reaction
from snapshot.reasons import Reason


def test_every_reason_has_a_reaction():
    assert set(REACTION) == set(Reason)


def test_every_reaction_is_called_for():
    assert set(REACTION.values()) == set(Reaction)


def test_what_did_not_fit_is_fetched_whole():
    """rules S27"""
    wanted = {Reason.BASE_MISMATCH, Reason.PATCH_FAILED, Reason.RESULT_MISMATCH, Reason.EPOCH_NEEDS_SNAPSHOT}
    assert {reason for reason, reaction in REACTION.items() if reaction is Reaction.FULL_RESYNC} == wanted


def test_trust_that_is_too_old_is_refreshed_and_a_bad_signature_blames_the_source():
    """rules S44, S28; threats D-48"""
    assert REACTION[Reason.TRUST_BUNDLE_TOO_OLD] is Reaction.REFRESH_TRUST
    assert REACTION[Reason.UNKNOWN_KEY] is Reaction.REFRESH_TRUST
    assert REACTION[Reason.BAD_SIGNATURE] is Reaction.NEXT_SOURCE
