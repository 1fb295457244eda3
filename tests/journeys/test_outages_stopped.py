"""Seven outages of others, as they would have come to a fleet of ours: each ends with no node touched, or with one, and
with the fleet serving; and the next valid change goes through (docs/changes.md, "Outages that would have ended here").

None was an attack: what was delivered was authentic, and wrong. The programs are the shipped ones, as processes.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.ctl.socket import NOT_DONE, REFUSED
from tests.holdfast.watching import Watching
from tests.journeys import edges
from tests.journeys.backbone import Backbone
from tests.journeys.edges import PROXY, THREE_RINGS, Edges
from tests.world.programs import Ran

NODES = 3
SLOW = "bake_s: 60, rings: [{nodes: 1}, {percent: 100}]"
ROOM = 2_000  # bytes that the bots' proxy has for its table
SERVICES = """
[[service]]
name = "bots"
scopes = ["config/features"]
limits = {{bytes = 2000}}

[[service]]
name = "quota"
scopes = ["config/quota"]
validate = ["/bin/sh", "-c", "! grep -q '\\"limit\\": \\"\\"' config/quota/quota.json || {{ echo no limit; exit 1; }}"]

[[service]]
name = "front-door"
scopes = ["config/rules"]
check = ["/bin/sh", "{folder}/well.sh", "{folder}"]
check_interval_s = 1

[[service]]
name = "sensor"
scopes = ["config/sensor"]

[[service]]
name = "backbone"
scopes = ["config/backbone"]
check_coordinator = true
"""
WELL_FOR_THREE_ASKS = """\
grep -qs incompatible $1/run/active/config/rules/rules || exit 0
echo asked >> $1/asked
[ $(wc -l < $1/asked) -lt 4 ] || { echo the data plane has crashed; exit 1; }
"""
CONFIG = """\
kind: Config
id: {name}
spec: {{to: {{roles: [ingress]}}, files: {{{file}: {{text: {text}}}}}}}
"""
ROUTE = """\
kind: Route
id: r-{number}
spec: {{organization: acme, service: web, match: {{hosts: [h{number}.example]}}}}
"""
EXPECTED = """\
kind: Expectation
id: every-quota-has-a-limit
spec:
  of: {roles: [ingress]}
  scope: config/quota
  pointer: quota.json#/policies/eu/limit
  is: {at_least: 1}
"""


def table(features: int) -> str:
    return json.dumps({"features": [f"f-{number:03}" for number in range(features)]})


def quota(**limits: object) -> str:
    return json.dumps({"policies": {name: {"limit": limit} for name, limit in limits.items()}})


FIRST = {
    ("features", "features.json"): table(100),
    ("quota", "quota.json"): quota(eu="500", us="900"),
    ("rules", "rules"): "compatible\n",
    ("sensor", "channel-291"): "21 fields\n",
    ("backbone", "routes"): "announce all\n",
    ("dns", "records"): "dynamodb 192.0.2.7\n",
}


def config(name: str, file: str, text: str) -> str:
    return CONFIG.format(name=name, file=file, text=json.dumps(text))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    folder: Path = tmp_path_factory.mktemp("outages")
    made: list[Edges] = []
    backbone = Backbone(lambda: any(fleet.having("config/backbone/routes", "withdraw") for fleet in made))
    first = [config(*place, text) for place, text in FIRST.items()]
    routes = [ROUTE.format(number=number) for number in range(12)]
    try:
        with edges.running(
            folder,
            NODES,
            more=PROXY + SERVICES,
            state="---\n".join([*first, *routes, EXPECTED]),
            way=backbone.lead_to,
        ) as fleet:
            made.append(fleet)
            for node in fleet.nodes.values():
                (node.folder / "well.sh").write_text(WELL_FOR_THREE_ASKS)
            fleet.until_all_told()
            yield fleet
    finally:
        backbone.end()


@pytest.fixture
def fleet(started: Edges) -> Edges:
    """All of it well."""
    serves(started)
    return started


def apply(fleet: Edges, name: str, file: str, text: str, *options: object, policy: str = THREE_RINGS) -> Ran:
    """One Config is another one, by this policy; until it is over."""
    return fleet.lab.ctl(*applying(fleet, name, file, text, policy), *options)


def applying(fleet: Edges, name: str, file: str, text: str, policy: str) -> tuple[object, ...]:
    fleet.declare(fleet.hosts("edge-1")[0], policy=policy)
    again = {**FIRST, (name, file): text}
    routes = [ROUTE.format(number=number) for number in range(12)]
    documents = [*(config(*place, each) for place, each in again.items()), *routes, EXPECTED]
    fleet.declare_more("more", "---\n".join(documents))
    return ("apply", "-f", fleet.declared, "-m", f"new {name}", "--yes", "--wait")


def serves(fleet: Edges) -> None:
    """Every node is active, its head is fresh, and a route may be opened."""
    for node in fleet.nodes.values():
        node.until(lambda: (node.status["state"], node.status["grade"]) == ("active", "fresh"))  # noqa: B023
        assert node.client.may("open_route", scope="route_policy", resource="front")


def takes_the_next(fleet: Edges, name: str, file: str, text: str) -> None:
    """A valid change of the same goes to all of them."""
    ran = apply(fleet, name, file, text)
    assert ran.status == 0, (ran, fleet.words())
    assert f"{NODES} of {NODES} nodes run it" in ran.out
    fleet.until(lambda: len(fleet.having(f"config/{name}/{file}", text)) == NODES)
    serves(fleet)


def newest(fleet: Edges) -> dict:
    return fleet.lab.good("changes", "list", "--most", "1", "--json").json["changes"][0]


def test_cloudflare_a_table_that_is_more_than_its_reader_has_room_for(fleet: Edges) -> None:
    """2025-11-18: said at the apply already, and by every reader, whoever lets it pass."""
    before = newest(fleet)["change"]
    refused = apply(fleet, "features", "features.json", table(240))
    assert refused.status == REFUSED and "too_much_change" in refused.err
    assert f"at most {ROOM:,} by what a service there says" in refused.err
    assert newest(fleet)["change"] == before
    allow = re.search(r"--allow (sha256:[0-9a-f]+)", refused.err)[1]
    halted = apply(fleet, "features", "features.json", table(240), "--allow", allow)
    assert halted.status == NOT_DONE and "refused config/features at step 12, blast_radius" in halted.out
    assert f"0 of {NODES} nodes were given it" in halted.out
    assert len(fleet.having("config/features/features.json", "f-239")) == 0
    serves(fleet)
    takes_the_next(fleet, "features", "features.json", table(101))


def test_google_a_policy_with_blank_fields(fleet: Edges) -> None:
    """2025-06-12: what is expected is not met; where nobody has expected it, the reader is asked before it runs it."""
    before = newest(fleet)["change"]
    refused = apply(fleet, "quota", "quota.json", quota(eu="", us="900"))
    assert refused.status == REFUSED and "every-quota-has-a-limit" in refused.err
    assert re.search(r"more\.yaml:\d+: spec\.is", refused.err) and newest(fleet)["change"] == before
    halted = apply(fleet, "quota", "quota.json", quota(eu="500", us=""))
    assert halted.status == NOT_DONE and "validator_refused" in halted.out and "no limit" in halted.out
    assert f"0 of {NODES} nodes were given it" in halted.out
    serves(fleet)
    takes_the_next(fleet, "quota", "quota.json", quota(eu="600", us="900"))


@pytest.mark.parametrize("what", ["records", "routes"])
def test_aws_and_rogers_a_plan_that_empties_everything(fleet: Edges, what: str) -> None:
    """2025-10-20: a record that an automation left empty. 2022-07-08: the filters were gone, all of them."""
    before = newest(fleet)["change"]
    if what == "records":
        refused = apply(fleet, "dns", "records", "")
        assert "records would be empty" in refused.err
    else:
        fleet.declare(fleet.hosts("edge-1")[0])
        documents = [*(config(*place, text) for place, text in FIRST.items()), EXPECTED]
        fleet.declare_more("more", "---\n".join(documents))
        refused = fleet.lab.ctl("apply", "-f", fleet.declared, "--prune", "--yes", "--wait")
        assert re.search(r"route_policy of edge-1 and 2 more: 12 of 13 entries removed", refused.err)
    assert refused.status == REFUSED and "too_much_change" in refused.err and "--allow sha256:" in refused.err
    assert newest(fleet)["change"] == before
    assert len(fleet.having("routes.json", "h11.example")) == NODES
    assert len(fleet.having("config/dns/records", "192.0.2.7")) == NODES
    serves(fleet)
    takes_the_next(fleet, "dns", "records", f"dynamodb 192.0.2.7\ns3 192.0.2.8\n# {what}\n")


def test_azure_front_door_damage_that_comes_later(fleet: Edges) -> None:
    """2025-10-29: well for as long as anybody looked. One node had it, and nobody is asked to take it back."""
    ran = apply(fleet, "rules", "rules", "incompatible\n", policy=f"{SLOW}, on_failure: revert")
    assert ran.status == NOT_DONE and "reverted: 1 of 1 nodes of ring 1" in ran.out
    assert "the data plane has crashed" in ran.out
    fleet.until(lambda: fleet.having("config/rules/rules", "incompatible") == [])
    assert sum((node.folder / "asked").exists() for node in fleet.nodes.values()) == 1
    serves(fleet)
    takes_the_next(fleet, "rules", "rules", "compatible as well\n")


@pytest.mark.parametrize(("what", "times"), [("agent", 3), ("machine", 2)])
def test_crowdstrike_a_file_that_takes_the_machine_down_with_every_start(
    fleet: Edges, tmp_path: Path, request: pytest.FixtureRequest, what: str, times: int
) -> None:
    """2024-07-19: the node goes back by itself, before anybody reads; another start does not bring it again."""
    ill = f"20 fields, says the {what}\n"
    watching = Watching(fleet.lab, tmp_path / "said", *applying(fleet, "sensor", "channel-291", ill, SLOW))
    request.addfinalizer(watching.end)
    watching.until("rolling: ring 1/2")
    fleet.until(lambda: fleet.having("config/sensor/channel-291", ill) != [])
    (touched,) = fleet.having("config/sensor/channel-291", ill)
    node = fleet.nodes[touched]
    for number in range(times):
        assert fleet.having("config/sensor/channel-291", ill) == [touched]
        if what == "agent":
            node.kill()
            node.start()
        else:
            node.boot_anew(number)
    fleet.until(lambda: fleet.having("config/sensor/channel-291", ill) == [])
    status, said = watching.ended()
    assert status == NOT_DONE and "1 of 1 nodes of ring 1 did not keep it" in said
    assert f"the {what} ended {times} times without order" in said
    node.kill()
    node.start()
    assert fleet.having("config/sensor/channel-291", "21 fields") == list(fleet.nodes)
    serves(fleet)
    takes_the_next(fleet, "sensor", "channel-291", f"21 fields, after the {what}\n")


def test_facebook_a_change_that_cuts_the_way_to_whoever_could_take_it_back(fleet: Edges) -> None:
    """2021-10-04: nobody can reach the node, so it is the node that goes back."""
    ran = apply(fleet, "backbone", "routes", "withdraw all\n", policy="bake_s: 3, rings: [{nodes: 1}, {percent: 100}]")
    assert ran.status == NOT_DONE and "1 of 1 nodes of ring 1 did not keep it" in ran.out
    assert "none can be reached any more" in ran.out
    assert fleet.having("config/backbone/routes", "withdraw") == []
    serves(fleet)
    takes_the_next(fleet, "backbone", "routes", "announce all, and more\n")
