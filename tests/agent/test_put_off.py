"""Refused documents are not asked for again at once; those that nobody gives, less and less often."""

import trio

from agent.plan import Wanted
from agent.put_off import AGAIN_S, LATER_S, NEVER_S, PutOffs
from snapshot.manifest import ScopeVersion


def wanted(snapshot_id="s1", scope="route_policy"):
    return Wanted(scope, ScopeVersion(1, 1, "sha256:" + "0" * 64, snapshot_id))


async def test_a_refused_one_rests_and_another_is_asked_for(autojump_clock):
    puts = PutOffs()
    puts.give_up("route_policy", "s1")
    assert puts.holds(wanted())
    assert not puts.holds(wanted("s2"))
    assert not puts.holds(wanted(scope="qos_policy"))
    await trio.sleep(puts.rest_s())
    assert not puts.holds(wanted())


async def test_what_nobody_gives_is_asked_for_ever_less_often(autojump_clock):
    """rules X27"""
    puts, rests = PutOffs(), []
    for _ in range(9):
        puts.try_later(wanted())
        rests.append(round(puts.rest_s()))
        await trio.sleep(puts.rest_s())
    assert rests[:4] == [LATER_S, 2 * LATER_S, 4 * LATER_S, 8 * LATER_S]
    assert rests[-1] == AGAIN_S
    puts.try_later(wanted("s2"))
    assert round(puts.rest_s()) == LATER_S, "a new document begins anew"


async def test_what_is_never_asked_for_again_is_when_somebody_asks_or_another_is_listed(autojump_clock):
    puts = PutOffs()
    puts.give_up("route_policy", "s1", NEVER_S)
    await trio.sleep(10 * AGAIN_S)
    assert puts.holds(wanted())
    assert puts.rest_s() == AGAIN_S
    assert not puts.holds(wanted("s2"))
    puts.clear()
    assert not puts.holds(wanted())
