"""A certificate is renewed over the one before, at whichever coordinator answers."""

from dataclasses import replace

import pytest

from agent.identity import renew_at
from tests.agent.bench import bench
from tests.journeys.lab import Lab
from wire.client import ClientError


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def test_the_successor_is_the_identity_once_it_was_granted(made, mock_clock):
    """rules K48, X8, J12: both pins hold until the new one was used"""
    joining = made.outside.joining
    before = joining.identity.present()
    await joining.renewal.renew()
    after = joining.identity.present()
    assert after.der != before.der
    assert renew_at(after, made.node.settings.node) > made.node.now()
    assert {pin.der for pin in made.server.pins.of_node("node-a")} == {before.der, after.der}
    await made.outside.refresh.ask(made.coordinator)
    assert made.coordinator.error == "", "it is taken over the new one"


async def test_a_refusal_leaves_the_old_one_and_is_tried_with_the_same(made, mock_clock):
    """rules J12, J11"""
    joining = made.outside.joining
    before = joining.identity.present()
    made.server.down = True
    for _ in range(2):
        with pytest.raises(ClientError):
            await joining.renewal.renew()
    successor = joining.identity.successor(made.node.settings.node, made.node.now())
    assert joining.identity.present() == before
    made.server.down = False
    await joining.renewal.renew()
    assert joining.identity.present() == successor


async def test_another_coordinator_renews_as_well(one, mock_clock):
    """rules S64, K50: the first of the list may be gone for good"""
    urls = ("https://127.0.0.1:1", *one.settings.coordinator.urls)
    settings = replace(one.settings, coordinator=replace(one.settings.coordinator, urls=urls))
    two = Lab(one.folder, one.clock, one.mock, one.server, settings)
    async with bench(two) as made:
        await made.enrol()
        before = made.outside.joining.identity.present()
        await made.outside.joining.renewal.renew()
        assert made.outside.joining.identity.present().der != before.der
