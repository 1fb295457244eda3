"""Recoveries: permission by root to go back in one scope, to one content, once (rules S87)."""

from dataclasses import replace

import pytest

from snapshot import canonical
from snapshot.reasons import Reason
from snapshot.verify import AlreadyApplied
from tests.fakes.cluster import DAY, NOW, Cluster, key

SCOPE = "route_policy"


class Story:
    """A node at version 3 that may want version 2 back."""

    def __init__(self):
        self.cluster = Cluster()
        self.node = self.cluster.node("core_mesh")
        self.oldest, self.old, self.last = (self.cluster.snapshot() for _ in range(3))
        for document in (self.oldest, self.old, self.last):
            self.node.take(document)

    def at_hand(self, recovery):
        """The node has been given it, and has not judged it yet."""
        self.node.holder = replace(self.node.holder, recoveries=(b"".join(recovery.chunks()),))
        return self.node

    def no_way_back(self, recovery, to=None, reason=Reason.ROLLBACK):
        self.at_hand(recovery).refuses(to or self.old, 9, reason, then=self.cluster.snapshot())


@pytest.fixture
def story():
    return Story()


def test_without_one_there_is_no_way_back(story):
    """rules S31, S76"""
    story.node.refuses(story.old, 9, Reason.ROLLBACK, then=story.cluster.snapshot())


def test_exactly_what_it_names_comes_back(story):
    """rules S31, S87; threats D-16: the mark stays, so the version given up never returns."""
    node = story.at_hand(story.cluster.recovery(story.old))
    taken = node.take(story.old)
    assert taken.recovery.nonce == "nonce-1"
    assert (taken.mark.config_version, node.holder.marks[SCOPE].config_version) == (2, 3)
    assert node.holder.active[SCOPE].content_hash == story.old.envelope.content_hash
    node.refuses(story.oldest, 9, Reason.ROLLBACK)
    node.refuses(story.old, 9, Reason.ROLLBACK, then=story.cluster.snapshot())


def test_what_was_given_up_counts_as_applied_and_is_not_taken_again(story):
    """rules S87: `already_applied` has no effect; the active document is the one gone back to."""
    node = story.at_hand(story.cluster.recovery(story.old))
    node.take(story.old)
    before = node.holder
    verdict = node.judge(story.last)
    assert isinstance(verdict, AlreadyApplied)
    assert node.accept(verdict) is before


def test_what_it_names_may_be_signed_again(story):
    """rules S87: with new times, by another key; the content is what it names."""
    renewed = story.cluster.forge(
        story.old, snapshot_id="renewed", issued_at=NOW, valid_from=NOW, expires_at=NOW + 9 * DAY
    )
    story.at_hand(story.cluster.recovery(story.old)).take(renewed)


def test_it_is_used_once(story):
    """rules S31, S87: its nonce is spent with the swap; another one allows the next step back."""
    node = story.at_hand(story.cluster.recovery(story.old))
    node.take(story.old)
    node.refuses(story.old, 9, Reason.ROLLBACK)
    story.at_hand(story.cluster.recovery(story.old, nonce="nonce-1", snapshot_id="again"))
    node.refuses(story.old, 9, Reason.ROLLBACK)
    story.at_hand(story.cluster.recovery(story.oldest, nonce="nonce-2")).take(story.oldest)
    assert node.holder.used_nonces == {"nonce-1", "nonce-2"}


OTHERS = {
    "from-an-earlier-version": lambda s: s.cluster.recovery(s.oldest, from_version=2),
    "from-a-later-version": lambda s: s.cluster.recovery(s.old, from_version=4),
    "to-another-version": lambda s: s.cluster.recovery(s.oldest),
    "for-another-node": lambda s: s.cluster.recovery(s.old, subject_node_id="node-b"),
    "for-another-cluster": lambda s: s.cluster.recovery(s.old, cluster_id="raven-2"),
    "about-another-scope": lambda s: s.cluster.recovery(s.old, scope_type="qos_policy"),
    "about-other-scope-ids": lambda s: s.cluster.recovery(s.old, scope_ids=["a"]),
    "of-another-epoch": lambda s: s.cluster.recovery(s.old, authority_epoch=2),
    "expired": lambda s: s.cluster.recovery(s.old, refresh_after=NOW, expires_at=NOW),
    "not-yet-valid": lambda s: s.cluster.recovery(s.old, valid_from=NOW + 1),
    "issued-ahead": lambda s: s.cluster.recovery(s.old, issued_at=NOW + 301, valid_from=NOW + 301),
    "by-a-config-key": lambda s: s.cluster.recovery(s.old, keys=[key("config-1")]),
    "by-one-root-of-two": lambda s: s.cluster.recovery(s.old, keys=[key("root-1")]),
    "by-an-unknown-key": lambda s: s.cluster.recovery(s.old, keys=[key("root-1"), key("other")]),
    "for-a-role-not-ours": lambda s: s.cluster.recovery(s.old, roles=["ingress"]),
    "under-a-later-bundle": lambda s: s.cluster.recovery(s.old, min_trust_bundle_version=2),
    "signed-as-a-snapshot": lambda s: s.cluster.forge(s.cluster.recovery(s.old), signed_as="snapshot"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_one_that_does_not_serve(story, other):
    """rules S31, S87; threats T19, D-16: it verifies itself, or it allows nothing."""
    story.no_way_back(other(story))


def test_to_other_content(story):
    """rules S87: the version alone does not name it."""
    recovery = story.cluster.recovery(story.old)
    manifest = canonical.loads(recovery.manifest_bytes) | {"to_content_hash": story.oldest.envelope.content_hash}
    story.no_way_back(story.cluster.forge(recovery, manifest=manifest))


@pytest.mark.parametrize("junk", [b"", b"\x94", b"junk" * 100])
def test_what_is_no_recovery_at_all(story, junk):
    """rules S53: it is passed over."""
    good = b"".join(story.cluster.recovery(story.old).chunks())
    story.node.holder = replace(story.node.holder, recoveries=(junk,))
    assert story.node.refusal(story.old) == (9, Reason.ROLLBACK)
    story.node.holder = replace(story.node.holder, recoveries=(junk, good))
    story.node.take(story.old)


def test_it_moves_step_9_alone(story):
    """threats D-16; rules S87: what it allows passes every other step, or does not."""
    story.at_hand(story.cluster.recovery(story.old))
    node, forge = story.node, story.cluster.forge
    node.refuses(forge(story.old, refresh_after=NOW, expires_at=NOW), 7, Reason.EXPIRED)
    node.refuses(forge(story.old, organization_ids=["other"]), 10, Reason.ORGANIZATION_NOT_ALLOWED)
    node.refuses(forge(story.old, keys=[key("other")]), 5, Reason.BAD_SIGNATURE)
    node.refuses(forge(story.old, min_trust_bundle_version=9), 4, Reason.TRUST_BUNDLE_TOO_OLD)
    node.take(story.old)


def test_it_never_moves_the_epoch(story):
    """rules S31, S89; format.md 7, details: `stale_epoch` stays."""
    cluster, node = story.cluster, story.node
    cluster.authority_epoch = 2
    node.take(cluster.trust_bundle())
    node.take(cluster.snapshot())
    story.at_hand(cluster.recovery(story.old))
    node.refuses(story.old, 8, Reason.STALE_EPOCH, then=cluster.snapshot())


def test_an_old_head_does_not_come_back(story):
    """rules S49: a recovery is about a scope; `head` is no scope type."""
    first, second = story.cluster.head(), story.cluster.head()
    story.node.take(second)
    story.at_hand(story.cluster.recovery(story.old, scope_type="head", from_version=2))
    story.node.refuses(first, 9, Reason.ROLLBACK)


# The document itself


def test_a_recovery_is_no_version_of_its_scope(story):
    """format.md 7, details: step 9 does not judge it, and accepting it moves no mark."""
    recovery = story.cluster.recovery(story.old)
    marks = story.node.holder.marks
    taken = story.node.take(recovery)
    assert (taken.kind, taken.scope, taken.recovery.to_config_version) == ("recovery", SCOPE, 2)
    assert story.node.holder.marks == marks
    story.node.take(story.old)


@pytest.mark.parametrize(
    ("members", "step", "reason"),
    [
        ({"subject_node_id": "node-b"}, 3, Reason.WRONG_NODE),
        ({"scope_type": "weather_policy"}, 3, Reason.UNKNOWN_SCOPE),
        ({"keys": [key("config-1"), key("config-2")]}, 4, Reason.KEY_NOT_FOR_SCOPE),
        ({"keys": [key("root-1")]}, 5, Reason.THRESHOLD_NOT_MET),
        ({"refresh_after": NOW, "expires_at": NOW}, 7, Reason.EXPIRED),
        ({"authority_epoch": 2}, 8, Reason.EPOCH_AHEAD),
        ({"roles": ["ingress"]}, 10, Reason.ROLE_NOT_ALLOWED),
        ({"organization_ids": ["other"]}, 10, Reason.ORGANIZATION_NOT_ALLOWED),
    ],
    ids=lambda value: str(value) if isinstance(value, Reason) else "",
)
def test_a_recovery_that_is_refused(story, members, step, reason):
    """threats T19; rules S43..S50"""
    story.node.refuses(story.cluster.recovery(story.old, **members), step, reason)


def test_a_recovery_of_a_scope_that_our_roles_may_not_hold(story):
    """rules S50"""
    recovery = story.cluster.recovery(story.old, scope_type="service_assignment")
    story.node.refuses(recovery, 10, Reason.ROLE_NOT_ALLOWED)


def test_a_shared_recovery(story):
    """rules S43"""
    recovery = story.cluster.recovery(story.old, subject_node_id="*", roles=["core_mesh"])
    story.node.take(recovery)
    story.node.take(story.old)


def test_an_increment_may_start_from_what_was_gone_back_to(story):
    """rules S81, S87: the base is the active document, the version goes on behind the mark."""
    node = story.at_hand(story.cluster.recovery(story.old))
    node.take(story.old)
    sections = {"settings": story.old.sections[0]}
    story.cluster.states[SCOPE] = replace(story.cluster.states[SCOPE], config_version=2, sections=sections)
    node.take(story.cluster.increment(sets={"more": 1}))
    assert node.holder.marks[SCOPE].config_version == 4
