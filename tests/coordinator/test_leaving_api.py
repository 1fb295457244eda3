"""Members that are taken out, as operators and nodes meet it: over the socket, and over TLS."""

import base64

from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_node_api import report
from tests.coordinator.test_restored_backup import show


async def test_who_was_removed_is_told_so_whatever_it_shows(founded: Founded) -> None:
    """rules K43, J30, J31, P17: by its old head, a report of before, a new join; the answer to drain is `since`."""
    async with running(founded) as at:
        node, other = await at.admit("node-a"), await at.admit("node-b")
        head = (await node.head(wait=10)).body
        assert await refusal(at.ask("POST", "/v1/nodes/node-a/remove", {})) == "not_draining"
        first = await at.ask("POST", "/v1/nodes/node-a/drain", {"reason": "sold"})
        assert await at.ask("POST", "/v1/nodes/node-a/drain", {}) == first
        assert (await at.ask("GET", "/v1/nodes/node-a"))["draining_since"] == first["since"]
        assert (await node.head()).status == 200  # it is served as ever
        await at.ask("POST", "/v1/nodes/node-a/undrain", {})
        await at.ask("POST", "/v1/nodes/node-a/drain", {})
        await at.ask("POST", "/v1/nodes/node-a/remove", {})
        assert await refusal(node.head()) == "removed"
        assert await refusal(show(node, head)) == "removed"
        assert await refusal(node.report(report(node))) == "removed"
        assert await refusal(node.join(None)) == "removed"
        assert (await other.head()).status == 200
        assert [each["node_id"] for each in (await at.ask("GET", "/v1/nodes"))["nodes"]] == ["node-b"]


async def test_by_force_over_the_socket(founded: Founded) -> None:
    """rules J32: with the bundle of root keys that raises the epoch, and only with it."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        body = {"reason": "gone", "document": base64.b64encode(founded.bundles.next()).decode()}
        assert await refusal(at.ask("POST", "/v1/nodes/node-a/remove/forced", body)) == "contradiction"
        assert (await node.head(wait=10)).status == 200
        founded.bundles.version -= 1
        body["document"] = base64.b64encode(founded.bundles.next(epoch=2)).decode()
        assert await refusal(at.ask("POST", "/v1/nodes/node-a/remove/forced", {**body, "reason": ""})) == "bad_request"
        await at.ask("POST", "/v1/nodes/node-a/remove/forced", body)
        assert await refusal(node.head()) == "removed"
        assert (await at.ask("GET", "/v1/status"))["authority_epoch"] == 2
