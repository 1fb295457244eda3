"""A certificate is renewed over the one before, at whichever coordinator answers."""

from dataclasses import replace

import pytest

from agent.enrolment.identity import renew_at
from tests.agent.bench import bench
from tests.journeys.lab import ROUTES, Lab
from wire import tls_contexts
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


@pytest.fixture
def contexts_made(monkeypatch):
    """The TLS contexts that clients have made, as they are made."""
    seen = []
    make = tls_contexts._client_context

    def watched(identity):
        seen.append(make(identity))
        return seen[-1]

    monkeypatch.setattr(tls_contexts, "_client_context", watched)
    return seen


async def ask_everything(made):
    """A head, documents and a report, each over a connection of its own."""
    before = len(made.server.connects)
    made.server.snapshot({"routes": {}}, ROUTES)
    made.server.announce()
    outside = made.outside
    for ask in (lambda: outside.refresh.ask(made.coordinator), outside.update.bring_up, outside.reporting.report):
        await made.coordinator.client.aclose()
        await ask()
    assert made.coordinator.error == ""
    assert len(made.server.connects) >= before + 3


async def test_one_tls_context_is_kept_until_the_certificate_is_renewed(one, mock_clock, contexts_made):
    """threats D-49: reading CA and key and making a context costs what a poll should not, and what is kept must go
    with the certificate
    """
    async with bench(one) as made:
        await made.settle()
        for _ in range(5):
            await ask_everything(made)
        assert len(contexts_made) == 1
        await made.outside.joining.renewal.renew()
        of_the_renewal = len(contexts_made) - 1
        for _ in range(5):
            await ask_everything(made)
        assert len(contexts_made) == 1 + of_the_renewal + 1
        assert contexts_made[-1] is not contexts_made[0]


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
