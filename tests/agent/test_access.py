"""Who reads what: real callers with other uids and groups, over a real socket."""

import json
import os
import sys
from dataclasses import replace

import pytest
import trio

from agent.access.access import Access, AccessRule, may_administer
from agent.config.configuration import AccessEntry
from agent.config.patterns import matches
from snapshot.grants import Grants
from tests.agent.lab import DAY, NOW, held, serving
from tests.citations import ROOT
from tests.store.cluster import NODE
from wire.peer import OVERFLOW_UID, UnixPeer

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
SOCKET_GID, WEB_GID = 4300, 4301

CALL = """
import json, os, sys
import _strptime  # while it can be read: another account may not reach this interpreter's files
sys.path.insert(0, sys.argv[1])
from holdfast.client import Client, HoldfastError
path, uid, groups, requests = json.loads(sys.argv[2])
os.setgroups(groups[1:])
os.setgid(groups[0])
os.setuid(uid)
client = Client(path, "/nowhere")
for method, target, body in requests:
    try:
        answer = client.request(method, target, body.encode() if body else None)
        print(json.dumps([answer.status, answer.body.decode()]))
    except HoldfastError as error:
        print(json.dumps([error.code, str(error)]))
"""

SECTION = ("GET", "/v1/scopes/route_policy/sections/routes", "")
OTHER = ("GET", "/v1/scopes/qos_policy/sections/policies", "")
LIST = ("GET", "/v1/scopes", "")
STATUS = ("GET", "/v1/status", "")
WEB, DB = "service_assignment/web", "service_assignment/db"
IMPORT = ("POST", "/v1/import", "x")


def peer(uid: int, *gids: int) -> UnixPeer:
    return UnixPeer(uid, frozenset(gids or (uid,)), 1)


@pytest.mark.parametrize(
    ("patterns", "scope", "expected"),
    [
        (("*",), "route_policy/a", True),
        (("route_policy",), "route_policy", True),
        (("route_policy",), "route_policy/a", False),
        (("route_policy/*",), "route_policy", True),
        (("route_policy/*",), "route_policy/a,b", True),
        (("route_policy/a",), "route_policy/a", True),
        (("route_policy/a",), "route_policy/a,b", False),
        (("route_polic",), "route_policy", False),
        (("service_assignment/web",), "service_assignment/web", True),
        (("service_assignment/web",), "service_assignment/web2", False),
        (("service_assignment/*",), "service_assignment/web", True),
        (("service_assignment",), "service_assignment/web", True),
        (("service_assignment",), "route_policy", False),
        ((), "route_policy", False),
    ],
)
def test_patterns(patterns, scope, expected):
    assert matches(patterns, scope) is expected


def test_the_default_is_the_sockets_group():
    """protocol.md 4."""
    access = Access.from_configuration({}, SOCKET_GID)
    assert access.may_read(peer(1000, 1000, SOCKET_GID), "route_policy")
    assert not access.may_read(peer(1000, 1000), "route_policy")
    assert access.may_read(peer(0), "route_policy")


def test_a_table_replaces_the_default():
    """threats U11, U05: by uid, by main and by supplementary group."""
    name = "root"
    table = {
        "route_policy/*": AccessEntry(users=(), groups=(str(WEB_GID),)),
        "qos_policy": AccessEntry(users=("4400",), groups=()),
        "*": AccessEntry(users=(), groups=(name,)),
    }
    access = Access.from_configuration(table, SOCKET_GID)
    assert access.may_read(peer(1000, 1000, WEB_GID), "route_policy/x")
    assert not access.may_read(peer(1000, 1000, WEB_GID), "qos_policy")
    assert access.may_read(peer(4400, 1), "qos_policy")
    assert not access.may_read(peer(4400, 1), "route_policy")
    assert not access.may_read(peer(1000, SOCKET_GID), "route_policy")
    assert access.may_read(peer(1000, 0), "node_runtime")


def test_places_at_the_socket_are_for_root_the_agent_and_the_users_that_are_named():
    """threats D-51: no group, since whoever is in it may have any number of subordinate ids in it, too"""
    table = {"route_policy": AccessEntry(users=("4400",)), "*": AccessEntry(groups=(str(WEB_GID),))}
    assert Access.from_configuration(table, SOCKET_GID).first == {0, os.geteuid(), 4400}
    assert Access.from_configuration({}, SOCKET_GID).first == {0, os.geteuid()}


def test_what_has_expired_is_for_whom_the_table_says():
    """protocol.md 4: `?expired=allow` where policy permits; by default whoever reads all"""
    everyone = Access.from_configuration({}, SOCKET_GID)
    assert everyone.may_read_expired(peer(1000, SOCKET_GID), "route_policy")
    assert not everyone.may_read_expired(peer(1000, 1000), "route_policy")
    table = {
        "route_policy": AccessEntry(groups=(str(WEB_GID),), expired=True),
        "*": AccessEntry(groups=(str(WEB_GID), str(SOCKET_GID))),
    }
    access = Access.from_configuration(table, SOCKET_GID)
    assert access.may_read_expired(peer(1000, WEB_GID), "route_policy")
    assert not access.may_read_expired(peer(1000, WEB_GID), "qos_policy")
    assert not access.may_read_expired(peer(1000, SOCKET_GID), "route_policy")
    assert access.may_read_expired(peer(0), "qos_policy")
    assert not access.may_read_expired(peer(OVERFLOW_UID), "route_policy")


def test_nobody_in_particular_reads_nothing():
    """threats U06."""
    everything = Access((AccessRule(uids=frozenset({OVERFLOW_UID}), gids=frozenset({OVERFLOW_UID}), scopes=("*",)),))
    assert not everything.may_read(peer(OVERFLOW_UID, OVERFLOW_UID), "route_policy")
    with pytest.raises(ValueError, match="nobody gets rights"):
        AccessRule.from_names([str(OVERFLOW_UID)], [], ["*"])


@pytest.mark.parametrize(
    ("users", "groups", "remedy"),
    [(["no-such-user"], [], "adduser"), ([], ["no-such-group"], "addgroup"), ([], [], "names nobody")],
)
def test_who_is_not_there_is_named_with_the_remedy(users, groups, remedy):
    with pytest.raises(ValueError, match=remedy):
        AccessRule.from_names(users, groups, ["*"])


def test_documents_come_from_root_or_the_agents_own_account():
    assert may_administer(peer(0))
    assert may_administer(peer(os.geteuid()))
    assert not may_administer(peer(4400, 0))


async def as_user(periphery, uid: int, gids: list[int], *requests: tuple[str, str, str]) -> list[list[object]]:
    asked = json.dumps([str(periphery.socket), uid, gids, requests])
    done = await trio.run_process([sys.executable, "-c", CALL, str(ROOT), asked], capture_stdout=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


@pytest.fixture
def reached(periphery, public_folder):
    """A periphery whose socket other accounts get to."""
    return replace(periphery, folder=public_folder)


@AS_ROOT
async def test_callers_of_other_accounts(reached):
    """threats U11, U05; rules K51: what may not be read is answered as what does not exist."""
    rule = AccessRule(gids=frozenset({WEB_GID}), scopes=("route_policy",))
    made = replace(reached, access=Access((rule,)))
    made.route(1, {"routes": {}})
    made.apply(made.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
    async with serving(made):
        made.socket.chmod(0o666)
        section, other, absent, listed, status, imported, told, untold = await as_user(
            made, 4400, [4400, WEB_GID], SECTION, OTHER, ("GET", OTHER[1].replace("qos_policy", "peer_directory"), ""),
            LIST, STATUS, IMPORT, ("GET", "/v1/scopes/route_policy/rejections", ""),
            ("GET", "/v1/scopes/qos_policy/rejections", ""),
        )  # fmt: skip
        assert told[0] == 200
        assert untold == ["not_found", "there is no such scope here"]  # words of a refusal may be words of a section
        assert section == [200, "{}"]
        assert other == absent == ["not_found", "there is no such scope here"]
        assert list(json.loads(listed[1])["scopes"]) == ["route_policy"]
        assert status[0] == 200  # for everyone who can connect
        assert imported[0] == "forbidden"
        strangers = await as_user(made, 4401, [4401], SECTION, LIST, STATUS)
        assert strangers[0][0] == "not_found"
        assert json.loads(strangers[1][1])["scopes"] == {}
        assert strangers[2][0] == 200
        assert made.taken == []


@AS_ROOT
async def test_the_account_of_a_service_reads_its_own_scope_and_no_other(reached):
    """threats U11: of two services on one node; the gate, the listing and the watch know no more either"""
    rules = (
        AccessRule(uids=frozenset({4400}), scopes=("service_assignment/web",)),
        AccessRule(uids=frozenset({4401}), scopes=("service_assignment/*",)),
    )
    made = replace(reached, access=Access(rules))
    web, db = (Grants(services=frozenset({one})) for one in ("web", "db"))
    made.given = replace(made.given, scopes={WEB: replace(held(), grants=web), DB: replace(held(), grants=db)})
    for service in ("web", "db"):
        made.apply(
            made.node.cluster.snapshot(
                1, {"services": {service: {}}}, "service_assignment", scope_ids=(service,), subject_node_id=NODE
            )
        )
    own, other, every, listed = (("GET", f"/v1/scopes{path}", "") for path in (
        "/service_assignment%2Fweb/sections/services", "/service_assignment%2Fdb/sections/services",
        "/service_assignment", "",
    ))  # fmt: skip
    may = [
        ("POST", "/v1/may", json.dumps({"action": "start_service", "scope": "service_assignment", "resource": one}))
        for one in ("web", "db")
    ]
    async with serving(made):
        made.socket.chmod(0o666)
        watch = ("GET", "/v1/watch?after=0&wait=0&scope=service_assignment", "")
        mine = await as_user(made, 4400, [4400], own, other, every, listed, *may, watch)
        theirs = await as_user(made, 4401, [4401], own, other, every, listed, *may, watch)
    assert [one[0] for one in mine[:3]] == [200, "not_found", "not_found"]
    assert [one[0] for one in theirs[:3]] == [200, 200, "not_found"]
    assert "service_assignment/<id>" in mine[2][1] and mine[2][1] == theirs[2][1]
    assert [set(json.loads(one[3][1])["scopes"]) for one in (mine, theirs)] == [{WEB}, {WEB, DB}]
    assert [json.loads(one[1])["reason"] for one in mine[4:6]] == ["ok", "not_in_policy"]
    assert [json.loads(one[1])["reason"] for one in theirs[4:6]] == ["ok", "ok"]
    assert [set(json.loads(one[6][1])["scopes"]) for one in (mine, theirs)] == [{WEB}, {WEB, DB}]


@AS_ROOT
async def test_an_expired_scope_is_read_by_whom_the_table_lets(reached):
    """protocol.md 4, rules S29: others learn that it has expired, and nothing more"""
    rules = (
        AccessRule(uids=frozenset({4400}), scopes=("route_policy",), expired=True),
        AccessRule(uids=frozenset({4401}), scopes=("route_policy",)),
    )
    made = replace(reached, access=Access(rules))
    made.route(1, {"routes": {}})
    expired = (SECTION[0], SECTION[1] + "?expired=allow", "")
    async with serving(made):
        made.socket.chmod(0o666)
        made.at = NOW + 8 * DAY
        assert await as_user(made, 4400, [4400], SECTION, expired) == [
            ["expired", "this scope has expired: ask with ?expired=allow to read it all the same"],
            [200, "{}"],
        ]
        refused = ["expired", "this scope has expired: it must be renewed"]
        assert await as_user(made, 4401, [4401], SECTION, expired) == [refused, refused]
        assert (await as_user(made, 4402, [4402], expired))[0][0] == "not_found"


@AS_ROOT
async def test_a_watch_tells_nothing_of_what_may_not_be_read(reached):
    made = replace(reached, access=Access((AccessRule(gids=frozenset({WEB_GID}), scopes=("route_policy",)),)))
    async with serving(made):
        made.socket.chmod(0o666)
        before = made.watching.seen.value
        made.apply(made.node.cluster.snapshot(1, {"policies": {}}, scope="qos_policy"))
        made.route(1, {"routes": {}})
        await made.watching.seen.wait_above(made.node.store.watch.generation - 1)
        watch = f"/v1/watch?after={before}&wait=0"
        allowed, only = await as_user(
            made, 4400, [WEB_GID], ("GET", watch, ""), ("GET", watch + "&scope=qos_policy", "")
        )
        assert json.loads(allowed[1])["scopes"] == {"route_policy": ["routes"]}
        assert only == [204, ""]


@AS_ROOT
async def test_the_gate_knows_only_scopes_that_its_caller_may_read(reached):
    """A scope that may not be read is one that is not there; the policy holds for everybody all the same."""
    made = replace(reached, access=Access((AccessRule(gids=frozenset({WEB_GID}), scopes=("route_policy",)),)))
    made.given = replace(
        made.given, scopes={name: held() for name in ("route_policy", "qos_policy", "degraded_mode_policy")}
    )
    async with serving(made):
        made.socket.chmod(0o666)
        bodies = [json.dumps({"action": "open_route", "scope": scope}) for scope in ("route_policy", "qos_policy")]
        mine, hidden = await as_user(made, 4400, [WEB_GID], *(("POST", "/v1/may", body) for body in bodies))
        assert json.loads(mine[1])["reason"] == "ok"
        assert json.loads(hidden[1])["reason"] == "not_in_policy"


@AS_ROOT
async def test_the_sockets_mode_keeps_others_out(reached):
    """threats U01."""
    async with serving(reached):
        assert (await as_user(reached, 4400, [4400], STATUS))[0][0] == "agent_down"


@AS_ROOT
async def test_services_and_routes_are_for_the_readers_of_their_scopes(reached):
    """`[access."service_assignment/web"]` lets web read web; of others nothing is learnt, by notices
    neither.
    """
    rule = AccessRule(uids=frozenset({4401}), scopes=(WEB,))
    made = replace(reached, access=Access((rule,)))
    cluster = made.node.cluster
    before = made.node.store.watch.generation
    for service in ("web", "db"):
        sections = {"services": {service: {"settings": {"of": service}}}}
        made.apply(
            cluster.snapshot(1, sections, scope="service_assignment", scope_ids=(service,), subject_node_id=NODE)
        )
    made.route(1, {"routes.2c": {"a": {}}})
    paths = ("/v1/services", "/v1/services/web", "/v1/services/db", "/v1/services/none", "/v1/routes", "/v1/routes/a")
    async with serving(made):
        made.socket.chmod(0o666)
        requests = [("GET", path, "") for path in (*paths, f"/v1/watch?after={before}")]
        listed, web, *others, notice = await as_user(made, 4401, [4401], *requests)
        strangers = await as_user(made, 4402, [4402], *requests[:-1])
    assert list(json.loads(listed[1])["services"]) == ["web"]
    assert json.loads(web[1])["settings"] == {"of": "web"}
    assert [one[0] for one in others] == ["not_found"] * 4
    assert others[0] == others[1]
    told = json.loads(notice[1])
    assert (list(told["scopes"]), told["services"], told["routes"]) == ([WEB], ["web"], [])
    assert json.loads(strangers[0][1])["services"] == {}
    assert [one[0] for one in strangers[1:]] == ["not_found"] * 5
