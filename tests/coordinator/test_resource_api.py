"""What is declared, by pages, whole or brief (protocol 2)."""

from tests.coordinator.daemon import refusal, running
from tests.coordinator.founding import Founded

FOUR = "\n---\n".join(
    ["{kind: Organization, id: acme}", "{kind: Organization, id: wayne}"]
    + [f"{{kind: Node, id: node-{name}, spec: {{organizations: [acme]}}}}" for name in "ba"]
)


async def test_by_pages_in_the_order_of_kind_and_id(founded: Founded) -> None:
    async with running(founded) as at:
        await at.apply(FOUR)
        whole = await at.ask("GET", "/v1/resources")
        assert [(each["kind"], each["id"]) for each in whole["resources"]] == [
            ("Node", "node-a"), ("Node", "node-b"), ("Organization", "acme"), ("Organization", "wayne"),
        ]  # fmt: skip
        assert whole["next"] is None
        first = await at.ask("GET", "/v1/resources?most=3")
        assert (first["resources"], first["next"]) == (whole["resources"][:3], "Organization/acme")
        last = await at.ask("GET", "/v1/resources?most=3&after=Organization/acme")
        assert (last["resources"], last["next"]) == (whole["resources"][3:], None)
        nodes = await at.ask("GET", "/v1/resources?kind=Node&most=2")
        assert ([each["id"] for each in nodes["resources"]], nodes["next"]) == (["node-a", "node-b"], None)


async def test_one_of_them(founded: Founded) -> None:
    async with running(founded) as at:
        await at.apply(FOUR)
        one = await at.ask("GET", "/v1/resources/Node/node-a")
        assert one["spec"] == {
            "kind": "data", "roles": [], "organizations": ["acme"], "site": "default", "addresses": [], "labels": {},
            "relay": False,
        }  # fmt: skip
        brief = await at.ask("GET", "/v1/resources/Node/node-a?brief=true")
        assert brief == {"kind": "Node", "id": "node-a", "spec": {"organizations": ["acme"]}}


WHAT_THERE_IS_NOT = {
    "/v1/resources?kind=Nodes": "not_found",
    "/v1/resources?after=node-a": "bad_request",
    "/v1/resources?after=Node/": "bad_request",
    "/v1/resources?most=0": "bad_request",
    "/v1/resources?most=1001": "bad_request",
    "/v1/resources?brief=1": "bad_request",
    "/v1/resources/Node/node-z": "not_found",
    "/v1/resources/Nodes/node-a": "not_found",
    "/v1/resources/Node/A": "not_found",
}


async def test_what_there_is_not(founded: Founded) -> None:
    async with running(founded) as at:
        await at.apply(FOUR)
        assert {path: await refusal(at.ask("GET", path)) for path in WHAT_THERE_IS_NOT} == WHAT_THERE_IS_NOT
        assert len((await at.ask("GET", "/v1/resources"))["resources"]) == 4
