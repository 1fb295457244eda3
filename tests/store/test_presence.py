"""Whether a slot waits, or a candidate lies there, known without a look: rules X26, L25."""

from store.base.presence import SlotPresence
from tests.store.cluster import DAY, NOW, SCOPE


def test_a_look_that_began_before_a_commit_says_nothing_of_it():
    presence = SlotPresence()
    assert presence.is_possible
    presence.look(list)
    assert not presence.is_possible

    def found_before_the_commit():
        presence.note_commit()
        return []

    presence.look(found_before_the_commit)
    assert presence.is_possible
    presence.look(lambda: ["one"])
    assert presence.is_possible
    presence.look(list)
    assert not presence.is_possible


def test_what_waits_is_looked_for_until_none_does(node, cluster):
    """rules X26: also what a process before this one has left"""
    assert node.store.may_have_waiting
    assert node.store.waiting() == {}
    assert not node.store.may_have_waiting
    slot = node.download(cluster.snapshot(1, {"a": 1}, valid_from=NOW + DAY, refresh_after=NOW + DAY))
    assert not node.store.may_have_waiting
    slot.wait(NOW + DAY)
    for _ in range(2):
        assert node.store.may_have_waiting
        assert list(node.store.waiting()) == [SCOPE]
        node.reopen()
    node.store.slot(SCOPE, slot.envelope_hash).drop()
    assert node.store.waiting() == {}
    assert not node.store.may_have_waiting


def test_candidates_are_looked_for_until_there_are_none(node, cluster):
    """Likewise; one that was dropped before it was whole, too."""
    assert len(node.store.candidates()) == 0
    assert not node.store.may_have_candidates
    slot = node.store.receive_candidate(SCOPE, room=1 << 20)
    slot.complete(node.verified_alone(cluster.snapshot(1, {"a": 1})))
    for _ in range(2):
        assert node.store.may_have_candidates
        assert list(node.store.candidates().by_scope) == [SCOPE]
        node.reopen()
    node.store.drop_candidates([SCOPE])
    assert len(node.store.candidates()) == 0
    assert not node.store.may_have_candidates
