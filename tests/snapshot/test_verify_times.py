"""Step 7: the times of a document, each at both of its edges, under one reading of the clock."""

from dataclasses import replace

import pytest

from snapshot.identifiers import parse_time
from snapshot.reasons import Reason
from snapshot.verify import NotYetValid
from tests.fakes.cluster import DAY, HOUR, NOW, Cluster

KINDS = ("snapshot", "increment", "head", "recovery", "trust_bundle")


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def made(cluster, kind, **members):
    """A good document of the kind with these times; an increment's base is taken by `based`."""
    if kind == "recovery":
        return cluster.recovery(cluster.snapshot(scope="qos_policy"), from_version=2, **members)
    if kind == "increment":
        return cluster.increment(sets={"more": {}}, **members)
    return getattr(cluster, kind)(**members)


def based(cluster, node, kind):
    if kind == "increment":
        node.take(cluster.snapshot())


@pytest.mark.parametrize("kind", KINDS)
def test_expires_at_is_the_first_second_without_it(cluster, node, kind):
    """rules S47, S75; threats V13"""
    based(cluster, node, kind)
    document = made(cluster, kind, refresh_after=NOW, expires_at=NOW + 10)
    assert node.refusal(document, now=NOW + 10) == (7, Reason.EXPIRED)
    assert node.refusal(document, now=NOW + 5 * DAY) == (7, Reason.EXPIRED)
    node.take(document, now=NOW + 9.999)


@pytest.mark.parametrize("kind", KINDS)
def test_issued_at_most_300_s_ahead(cluster, node, kind):
    """rules S47; threats V17: a clock may be that far off, and no farther."""
    based(cluster, node, kind)
    ahead = {"issued_at": NOW + 300, "valid_from": NOW + 300, "refresh_after": NOW + HOUR, "expires_at": NOW + HOUR}
    document = made(cluster, kind, **ahead)
    assert node.refusal(document, now=NOW - 1) == (7, Reason.ISSUED_IN_FUTURE)
    assert node.refusal(document, now=NOW - 0.001) == (7, Reason.ISSUED_IN_FUTURE)
    if kind in ("snapshot", "trust_bundle"):
        assert isinstance(node.judge(document, now=NOW), NotYetValid)
    else:
        assert node.refusal(document, now=NOW) == (7, Reason.NOT_YET_VALID)
    node.take(document, now=NOW + 300)


@pytest.mark.parametrize("scope", ["route_policy", "trust_bundle"])
def test_a_snapshot_whose_time_has_not_come_waits_for_it(cluster, node, scope):
    """threats V16; rules S47: nothing is accepted meanwhile, and it is judged whole again."""
    times = {"valid_from": NOW + 60, "refresh_after": NOW + DAY}
    document = cluster.trust_bundle(**times) if scope == "trust_bundle" else cluster.snapshot(**times)
    before = node.holder
    verdict = node.judge(document, now=NOW + 59.5)
    assert isinstance(verdict, NotYetValid)
    assert verdict.envelope.valid_from == NOW + 60
    assert node.accept(verdict) is before
    assert node.take(document, now=NOW + 60).judged_at == NOW + 60


def test_what_has_come_meanwhile_counts_when_its_time_comes(cluster, node):
    """threats V16: verified whole at that time, by what is known then."""
    waiting = cluster.snapshot(valid_from=NOW + 60)
    assert isinstance(node.judge(waiting), NotYetValid)
    node.take(cluster.snapshot())
    assert node.refusal(waiting, now=NOW + 60) == (9, Reason.ROLLBACK)


@pytest.mark.parametrize("kind", ["increment", "head", "recovery"])
def test_other_kinds_do_not_wait(cluster, node, kind):
    """format.md 7; threats V16"""
    based(cluster, node, kind)
    document = made(cluster, kind, valid_from=NOW + 60, refresh_after=NOW + DAY, expires_at=NOW + DAY)
    node.refuses(document, 7, Reason.NOT_YET_VALID)
    node.take(document, now=NOW + 60)


DISORDERED = {
    "valid-before-issued": {"valid_from": NOW - 61},
    "refresh-before-valid": {"refresh_after": NOW - 61},
    "expiry-before-refresh": {"refresh_after": NOW + 8 * DAY},
    "no-time-at-all": {"issued_at": NOW, "valid_from": NOW, "refresh_after": NOW, "expires_at": NOW},
    "all-backwards": {"issued_at": NOW + 3, "valid_from": NOW + 2, "refresh_after": NOW + 1, "expires_at": NOW},
}


@pytest.mark.parametrize("times", DISORDERED.values(), ids=DISORDERED)
def test_times_out_of_order(cluster, node, times):
    """rules S47, S88: seen before any of them is compared with the clock."""
    good = cluster.snapshot()
    node.refuses(cluster.forge(good, **times), 7, Reason.BAD_VALIDITY, then=good)


def test_times_that_may_be_equal(cluster, node):
    """rules S47"""
    node.take(cluster.snapshot(issued_at=NOW, valid_from=NOW, refresh_after=NOW, expires_at=NOW + 1))
    node.take(cluster.snapshot(issued_at=NOW, valid_from=NOW, refresh_after=NOW + 1, expires_at=NOW + 1))


def test_the_order_within_the_step(cluster, node):
    """rules S88: issued_in_future, not_yet_valid, expired."""
    ahead = cluster.snapshot(issued_at=NOW + 301, valid_from=NOW + 301)
    node.refuses(ahead, 7, Reason.ISSUED_IN_FUTURE)
    assert isinstance(node.judge(cluster.snapshot(valid_from=NOW + 1)), NotYetValid)


def test_a_time_past_2038(cluster):
    """threats V23"""
    late = parse_time("2150-06-01T00:00:00Z")
    cluster.trust("config-1", not_after=late + DAY)
    for root in ("root-1", "root-2", "root-3"):
        cluster.trust(root, not_after=late + DAY)
    cluster.trust_bundle(expires_at=late + DAY)
    node = cluster.node("core_mesh")
    document = cluster.snapshot(issued_at=late, valid_from=late, refresh_after=late, expires_at=late + DAY)
    node.take(document, now=late)


def test_a_newer_version_may_be_issued_earlier(cluster, node):
    """threats V10"""
    node.take(cluster.snapshot())
    node.take(cluster.snapshot(issued_at=NOW - DAY, valid_from=NOW - DAY))


# A clock that is known to be wrong


def unsynchronised(node):
    node.holder = replace(node.holder, clock_synchronised=False)
    return node


def test_a_wrong_clock_follows_issued_at(cluster, node):
    """rules S47; format.md 7, step 7: behind, it is lifted; then the document's own times hold."""
    late = {"issued_at": NOW + 5 * DAY, "valid_from": NOW + 5 * DAY, "refresh_after": NOW + 6 * DAY}
    document = cluster.snapshot(**late)
    assert node.refusal(document) == (7, Reason.ISSUED_IN_FUTURE)
    assert unsynchronised(node).take(document).judged_at == NOW + 5 * DAY
    waiting = cluster.snapshot(**late | {"valid_from": NOW + 5 * DAY + 1})
    assert isinstance(node.judge(waiting), NotYetValid)


def test_a_wrong_clock_is_lifted_no_farther_than_the_bundle(cluster, node):
    """rules S47"""
    end = NOW + 90 * DAY
    times = {"refresh_after": end + DAY, "expires_at": end + DAY}
    beyond = cluster.snapshot(issued_at=end + 301, valid_from=end + 301, **times)
    unsynchronised(node).refuses(beyond, 7, Reason.ISSUED_IN_FUTURE)
    assert isinstance(node.judge(cluster.snapshot(issued_at=end + 300, valid_from=end + 300, **times)), NotYetValid)
    node.take(cluster.snapshot(issued_at=end, valid_from=end, **times))


def test_a_wrong_clock_is_never_put_back(cluster, node):
    """threats V19: what has expired by it has expired."""
    document = cluster.snapshot(refresh_after=NOW, expires_at=NOW + 10)
    unsynchronised(node).refuses(document, 7, Reason.EXPIRED, now=NOW + 10, then=cluster.snapshot())
