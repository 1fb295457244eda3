"""Trust bundles one by one: each durable before the next, the first bad one ends the run, a lost store walks again."""

import shutil
from functools import partial

import trio

from tests.fakes.cluster import CLUSTER_ID, key

ROUTES = "route_policy"


def rotate(one, count):
    for number in range(count):
        one.cluster.trust(f"config-more-{number}")
        one.server.publish(one.cluster.trust_bundle(**one.server.times()))


def holds_bundle(one, version):
    return one.node.holdings.bundle.version == version


def asked_for_bundles(one):
    return sum("/v1/trust" in request for request in one.server.requests)


async def test_a_bad_bundle_ends_the_run_and_what_came_before_it_stands(one, mock_clock):
    """rules S36, P24; threats D-14: the third lost its signatures; the second holds; once it is mended all are taken"""
    async with one.agent():
        await one.settled()
        rotate(one, 3)
        good = one.server.bundles[2]
        one.server.bundles[2] = good[:200] + bytes([good[200] ^ 1]) + good[201:]
        one.server.announce()
        await one.until(lambda: one.node.holdings.bundle.version == 2)
        await one.until(lambda: one.rejected("trust_bundle") != "")
        assert one.node.holdings.bundle.version == 2
        one.server.bundles[2] = good
        one.server.announce()
        await one.until(lambda: one.node.holdings.bundle.version == 4)


async def test_of_keys_that_change_one_after_the_other_none_waits(one, mock_clock):
    """threats D-42: who gave a bundle is asked again at once; who gives none, for what a stranger signed, is not"""
    async with one.agent():
        await one.settled()
        for number in (2, 3, 4):
            one.cluster.trust(f"config-{number}")
            one.server.publish(one.cluster.trust_bundle(**one.server.times()))
            one.server.announce(keys=[key(f"config-{number}")])
            await one.until(partial(holds_bundle, one, number), within_s=20)
        await one.until(lambda: one.mark("head")[1] == one.cluster.versions["head"], within_s=20)
        before = asked_for_bundles(one)
        for _ in range(5):
            one.server.announce(keys=[key("a stranger")])
            await trio.sleep(5)
        assert asked_for_bundles(one) - before == 1
        assert one.rejected("head") == "unknown_key"
        one.server.announce()
        await one.until(lambda: one.mark("head")[1] == one.cluster.versions["head"])


async def test_a_lost_store_walks_from_the_pinned_roots(one, mock_clock):
    """rules L33, S63: below its mark a bundle only leads on; the mark and what is above is taken"""
    async with one.agent():
        await one.settled()
        rotate(one, 3)
        one.server.announce()
        await one.until(lambda: one.node.holdings.bundle.version == 4)
    shutil.rmtree(one.folder / "state" / "clusters" / CLUSTER_ID / "store")
    async with one.agent():
        await one.until(lambda: one.node.holdings.bundle is not None)
        assert one.node.holdings.bundle.version == 4
        await one.settled()


async def test_a_lost_store_takes_no_bundle_below_its_mark(one, mock_clock):
    """rules S53; threats D-24: a coordinator that was restored from an old backup cannot lower what the floors hold"""
    async with one.agent():
        await one.settled()
        rotate(one, 2)
        one.server.announce()
        await one.until(lambda: one.node.holdings.bundle.version == 3)
    shutil.rmtree(one.folder / "state" / "clusters" / CLUSTER_ID / "store")
    kept, one.server.bundles[:] = list(one.server.bundles), one.server.bundles[:2]
    async with one.agent():
        with trio.move_on_after(600):
            await one.until(lambda: one.node.holdings.bundle is not None)
        assert one.node.holdings.bundle is None
        assert one.mark("trust_bundle") == (1, 3)
        one.server.bundles[:] = kept
        await one.until(lambda: one.node.holdings.bundle is not None)
        assert one.node.holdings.bundle.version == 3
