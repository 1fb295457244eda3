"""What a service of this node can take: refused in place of step 12, as a candidate and to be run."""

import json
from dataclasses import replace

import pytest
import trio

from agent.config.configuration import ConfigurationError, parse
from agent.services.service_limits import BLAST_RADIUS, ServiceLimits
from agent.state.own_bounds import OwnRefusalError
from snapshot.blast_radius import HeldSections
from snapshot.manifest import SectionEntry
from tests.agent.bench import bench
from tests.agent.test_preparing import Prepared
from tests.agent.test_update_occupied import begun
from tests.journeys.lab import ROUTES, lab, settings_for
from wire.messages import ScopeLimits

QOS = "qos_policy"
LIMITS = "limits = {entries = 20, bytes = 2000, removed_percent = 50}\n"
NODE = {"node": {"cluster_id": "c", "node_id": "n"}, "coordinator": {"urls": ["https://c:1"], "ca_file": "/ca"}}


def services(*tables):
    given = [{"name": f"s{number}", "scopes": ["route_policy"], **table} for number, table in enumerate(tables)]
    return parse(NODE | {"service": given}).services


def state(count: int, size: int = 1) -> HeldSections:
    data = json.dumps({f"r{number:03}": "x" * size for number in range(count)}).encode()
    return HeldSections({"routes": SectionEntry("0" * 62 + f"{count:02}", len(data))}, lambda _: data)


class Envelope:
    scope, scope_type = ROUTES, ROUTES


def words(limits, before, after, *, is_allowed=False) -> str:
    try:
        ServiceLimits(services(*({"limits": each} for each in limits))).refuse(
            Envelope, before, after, is_allowed=is_allowed
        )
    except OwnRefusalError as refused:
        assert (refused.step, refused.reason) == (12, BLAST_RADIUS)
        return refused.detail
    return ""


def test_each_limit_says_what_was_found_and_what_there_may_be():
    assert words([{"entries": 20}], state(20), state(20)) == ""
    assert words([{"entries": 20}], state(20), state(21)) == "s0: 21 entries; at most 20"
    assert words([{"bytes": 100}], None, state(2, 100)) == "s0: 224 bytes; at most 100"
    assert words([{"removed_percent": 50}], state(20), state(10)) == ""
    assert "s0: 11 of 20 entries removed (55 %)" in words([{"removed_percent": 50}], state(20), state(9))
    assert words([{}], state(20), state(0)) == ""


def test_each_service_is_heard_and_no_other():
    found = words([{"entries": 5}, {"entries": 50}, {"bytes": 10}], None, state(10))
    assert found.startswith("s0: 10 entries") and "; s2: " in found and "s1" not in found
    assert not ServiceLimits(services({"scopes": ["qos_policy"], "limits": {"entries": 1}}, {})).concerns(ROUTES)


def test_who_lets_a_plan_pass_lifts_what_goes_away_and_nothing_else():
    limits = [{"entries": 20, "removed_percent": 10}]
    assert words(limits, state(20), state(2), is_allowed=True) == ""
    assert "21 entries" in words(limits, state(20), state(21), is_allowed=True)


def test_the_narrowest_are_reported():
    limits = ServiceLimits(services({"limits": {"entries": 9, "bytes": 7}}, {"limits": {"entries": 5}}, {}))
    assert limits.narrowest(["qos_policy", ROUTES]) == {ROUTES: ScopeLimits(entries=5, bytes=7, removed_percent=None)}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (3, "must be a table of entries (integer, 1 to 10000000), bytes"),
        ({"entries": 0}, "entries must be an integer from 1 to 10000000, not 0"),
        ({"removed_percent": 101}, "removed_percent must be an integer from 0 to 100"),
        ({"entires": 3}, "entires is not a setting: did you mean entries?"),
    ],
)
def test_what_is_wrong_in_agent_toml_is_named(limits, said):
    with pytest.raises(ConfigurationError) as caught:
        services({"limits": limits})
    assert "service[0].limits" in str(caught.value) and said in str(caught.value)


# ---- on a node


def routes(count: int, via: str = "a") -> dict[str, object]:
    return {"routes": {f"r{number:03}": {"via": via} for number in range(count)}}


@pytest.fixture
async def made(tmp_path, mock_clock):
    text = f'[[service]]\nname = "web"\nscopes = ["route_policy"]\n{LIMITS}'
    async with lab(tmp_path, mock_clock, text=text) as one:
        one.server.snapshot(routes(20), ROUTES)
        one.server.announce()
        async with bench(one) as found:
            await found.settle()
            yield Prepared(found, tmp_path)


BEYOND = {
    "entries": (routes(21), "web: 21 entries; at most 20"),
    "bytes": (routes(20, "x" * 100), "bytes; at most 2,000"),
    "what goes away": (routes(9), "web: 11 of 20 entries removed (55 %); at most 50 % at a time"),
}


@pytest.mark.parametrize("what", BEYOND)
@pytest.mark.parametrize("form", ["snapshot", "increment"])
async def test_what_is_to_be_run_is_refused_and_the_next_goes_through(made, mock_clock, what, form):
    sections, said = BEYOND[what]
    before = made.held()
    if form == "increment":
        made.server.publish_increment(ROUTES, sets=sections)
    else:
        made.server.snapshot(sections, ROUTES)
    await made.run()
    last = made.node.store.rejections.last(ROUTES)
    assert (last.step, last.reason, last.config_version) == (12, BLAST_RADIUS, 2 + 1)
    assert said in last.detail
    assert made.held() == before
    made.server.snapshot(routes(15), ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 4


@pytest.mark.parametrize("what", BEYOND)
async def test_as_a_candidate_it_is_a_no_without_a_second_download(made, mock_clock, what):
    sections, said = BEYOND[what]
    before = made.held()
    made.server.propose(sections)
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 12, BLAST_RADIUS)}
    assert said in made.detail()
    assert (made.held(), made.alarms(), made.slots()) == (before, ([], frozenset(), frozenset(), ""), {ROUTES})
    fetched = made.fetched()
    made.server.snapshot({"qos": {}}, QOS)
    await made.run()
    await made.preparation.look()
    assert (made.votes(), made.fetched()) == ({ROUTES: ("refused", 12, BLAST_RADIUS)}, fetched + 1)
    made.server.propose(routes(15))
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}


@pytest.mark.parametrize(
    ("what", "verdict"), [("entries", "refused"), ("bytes", "refused"), ("what goes away", "accepted")]
)
async def test_an_allowed_plan_lifts_one_of_them(made, mock_clock, what, verdict):
    """the hash stands in the listing, signed; of the candidate and of what is to be run alike"""
    made.server.propose(BEYOND[what][0], listed={"change": "c-1", "allowed": "sha256:" + "0" * 64})
    await made.hear()
    assert made.votes()[ROUTES][0] == verdict
    listed = made.server.coming[ROUTES]
    made.server.release(ROUTES)
    scopes = made.server.cluster.listed()
    await made.run(scopes=scopes | {ROUTES: listed})
    runs = made.node.holdings.kept.active[ROUTES].envelope.config_version
    assert runs == (3 if verdict == "accepted" else 2)


async def test_a_plan_that_is_let_pass_no_more_lets_nothing_in_that_is_on_its_way(made, mock_clock):
    """rules S86: what the head that is held now says of it counts, not the one by which it was asked for"""
    made.server.snapshot(routes(9), ROUTES)
    scopes = made.server.cluster.listed()
    allowed = replace(scopes[ROUTES], change="c-1", allowed="sha256:" + "0" * 64)
    made.server.hang = f"/v1/documents/{ROUTES}-3"
    made.server.announce(scopes=scopes | {ROUTES: allowed})
    refresh, update = made.made.outside.refresh, made.made.outside.update
    await refresh.ask(made.made.coordinator)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(update.bring_up)
        await begun(made.server, f"GET {made.server.hang}")
        made.server.announce(scopes=scopes)
        await refresh.ask(made.made.coordinator)
        made.server.hang = ""
    await update.bring_up()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 2
    assert made.node.store.rejections.last(ROUTES).reason == BLAST_RADIUS
    await made.run(scopes=scopes | {ROUTES: allowed})
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 2, "it rests"
    made.server.snapshot(routes(15), ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 4


async def test_a_renewal_of_what_runs_is_beyond_no_limit(tmp_path, mock_clock):
    """a limit that was set lower meanwhile must let nothing expire"""
    async with lab(tmp_path, mock_clock) as one:
        one.server.snapshot(routes(30), ROUTES)
        one.server.announce()
        async with bench(one) as found:
            await found.settle()
        text = f'[[service]]\nname = "web"\nscopes = ["route_policy"]\n{LIMITS}'
        lower = type(one)(one.folder, one.clock, one.mock, one.server, settings_for(tmp_path, one.server, text))
        async with bench(lower) as found:
            made = Prepared(found, tmp_path)
            made.server.snapshot(routes(30), ROUTES)
            await made.run()
            assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 3
            made.server.propose(routes(31))
            await made.hear()
            assert made.votes() == {ROUTES: ("refused", 12, BLAST_RADIUS)}


@pytest.mark.parametrize("coming", [False, True], ids=["to be run", "as a candidate"])
async def test_the_way_back_to_what_was_good_here_is_never_too_far(made, mock_clock, coming):
    """a change is taken back by old content under a new version, and may take much away; what never ran here may not"""
    for count in (10, 5, 20):
        made.server.snapshot(routes(count), ROUTES)
        await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 5
    made.server.snapshot(routes(4), ROUTES)
    await made.run()
    assert "16 of 20 entries removed" in made.node.store.rejections.last(ROUTES).detail
    if coming:
        made.server.propose(routes(5))
        await made.hear()
        assert made.votes() == {ROUTES: ("accepted",)}
        made.server.release(ROUTES)
    else:
        made.server.snapshot(routes(5), ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 7
