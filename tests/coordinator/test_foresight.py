"""What a declared state means for an outage: of one node, and in a sentence."""

import pytest

from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.declared.foresight import foresee_node, warnings
from coordinator.declared.kinds import (
    DegradedModePolicy,
    Node,
    Organization,
    Route,
    Selector,
    Service,
    ServiceEndpoint,
)
from snapshot.outage import Outage
from tests.coordinator.models import model

HOUR = 3_600
SETTINGS = CoordinatorSettings()
NOTHING = "3 of 3 nodes stop after 30 min (DegradedModePolicy all gives them nothing longer)"
BOTH = (
    "2 of 3 nodes stop after 30 min (no DegradedModePolicy applies), "
    "1 of 3 at once after a restart (allow_unconfirmed_start is false: some)"
)
WEB = Service("web", "acme", Selector(labels={"run": "web"}), endpoints=(ServiceEndpoint("h", "http", "h", 1, True),))
FABRIC = (
    Organization("acme"),
    Node("egress", roles=("egress_service",), organizations=("acme",), labels={"run": "web"}),
    Node("ingress", roles=("ingress",), organizations=("acme",)),
    Node("thin", roles=("thin",), organizations=("acme",)),
    Node("idle"),
    Node("witness", kind="witness"),
    WEB,
    Route("front", "acme", "web"),
)


def policy(id_="all", **members):
    given = {"allow": ("continue_services", "preserve_routes"), "allow_unconfirmed_start": True, **members}
    return DegradedModePolicy(id_, **given)


def stops(node_id, *resources, **how):
    found = foresee_node(model(*FABRIC, *resources), node_id, Outage(0, 30 * DAY, **how), SETTINGS)
    return {(stop.what, *stop.names): (stop.after_s, stop.reason) for stop in found.stops}


def test_one_node_as_if_it_were_published_now():
    """rules S55..S58: by what is compiled for it, whether it has joined or not"""
    found = stops("egress", policy(max_duration_s=2 * DAY, route_ttl_s=HOUR))
    head = SETTINGS.head_lifetime_s
    assert found["services", "web"] == (head + 2 * DAY, "degraded_limit")
    assert found["routes", "front"] == (head + HOUR, "degraded_limit")
    assert found["sessions", "web"] == (head + 900, "degraded_limit")
    alone = foresee_node(model(*FABRIC, members={}), "egress", Outage(0, DAY), SETTINGS)
    assert {stop.reason for stop in alone.stops} == {"no_degraded_policy"}


def test_services_that_a_node_only_leads_to_are_not_its_own():
    assert not any(what == "services" for what, *_ in stops("ingress", policy()))
    assert ("routes", "front") in stops("ingress", policy())


def test_the_snapshots_end_is_the_last():
    longest = policy(max_duration_s=7 * DAY)
    assert stops("egress", longest)["services", "web"][0] == SETTINGS.snapshot_lifetime_s


# ---- the sentence


@pytest.mark.parametrize(("resources", "expected"), [
    ((), ["3 of 3 nodes stop after 30 min (no DegradedModePolicy applies)"]),
    ((policy(),), []),
    ((policy(allow=()),), [NOTHING]),
    ((policy(max_duration_s=0),), [NOTHING]),
    (
        (policy(), policy("few", applies_to=Selector(roles=("thin",)), priority=1, allow_unconfirmed_start=False)),
        ["1 of 3 nodes stop at once after a restart (allow_unconfirmed_start is false: DegradedModePolicy few)"],
    ),
    (
        (policy("some", applies_to=Selector(roles=("thin",)), allow_unconfirmed_start=False),),
        [BOTH],
    ),
])  # fmt: skip
def test_whose_nodes_would_stop(resources, expected):
    """Of the nodes that carry something: neither a witness nor one without a role."""
    found = warnings(model(*FABRIC, *resources), SETTINGS)
    assert list(found) == [f"in an outage {each}; holdfastctl drill outage 72h says which" for each in expected]


def test_nodes_that_have_not_joined_count_too():
    assert warnings(model(*FABRIC, members={}), SETTINGS) == warnings(model(*FABRIC), SETTINGS)
    assert warnings(model(), SETTINGS) == ()


def test_a_sentence_says_what_each_node_would_do():
    """The sort's typical node stops when the nodes themselves do."""
    few = policy("few", applies_to=Selector(roles=("thin",)), max_duration_s=HOUR, allow=("preserve_routes",))
    for node_id, stopped in (("egress", True), ("ingress", True), ("thin", False)):
        ends = stops(node_id, few)
        last = max(ends[each][0] for each in ends if each[0] in ("services", "routes"))
        assert (last <= SETTINGS.head_lifetime_s) == stopped
    assert "2 of 3 nodes stop" in warnings(model(*FABRIC, few), SETTINGS)[0]
