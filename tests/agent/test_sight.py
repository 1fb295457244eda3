"""One decision for every way out: who reads which scope, whether over the socket, as a file, or by its name alone.

Real callers with other uids and groups ask in every way, and each way must give the same verdict.
"""

import json
import os
import sys
from dataclasses import replace

import pytest
import trio

from agent.access.access import Access, AccessRule
from agent.access.sight import CallerSight
from agent.files.file_access import FileAccess, FilesFor
from agent.files.generations import Permissions
from agent.files.layout import folder_of
from agent.services.notifiers import NotifierWatch
from agent.services.services import LocalService, Notified
from snapshot.manifest import ScopeVersion
from store.base.records import Rejection
from tests.agent.lab import DAY, NOW, GateAnswer, ask, held, serving
from tests.citations import ROOT
from tests.store.cluster import NODE
from tests.wire.lab import running, tcp_listener
from wire.limits import REMOTE
from wire.local.node_status import AwaitedVersion, CandidateState
from wire.messages import DocumentOrigin
from wire.peer import OVERFLOW_UID, AnonymousPeer, UnixPeer
from wire.routes import Routes
from wire.server import Server
from wire.tls import PlainTransport

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
ROUTES, QOS, WEB, DB = "route_policy", "qos_policy", "service_assignment/web", "service_assignment/db"
OURS = {ROUTES, QOS, WEB, DB}
GATEWAY_GID, AUDIT_GID = 4301, 4302
RULES = (
    AccessRule(uids=frozenset({4400}), scopes=(WEB,)),
    AccessRule(gids=frozenset({GATEWAY_GID}), scopes=(ROUTES,), expired=True),
    AccessRule(gids=frozenset({GATEWAY_GID}), scopes=("service_assignment/*",)),
    AccessRule(gids=frozenset({AUDIT_GID}), expired=True),
    AccessRule(uids=frozenset({4404}), scopes=(QOS,)),
    AccessRule(gids=frozenset({4404}), scopes=(ROUTES,)),
)
# caller: (uid, gids), what it reads, and what of it also once it is over
CALLERS = {
    "root": ((0, [0]), OURS, OURS),
    "the account of a service": ((4400, [4400]), {WEB}, set()),
    "a member of a group": ((4401, [4401, GATEWAY_GID]), {ROUTES, WEB, DB}, {ROUTES}),
    "all access": ((4402, [AUDIT_GID]), OURS, OURS),
    "a stranger": ((4403, [4403]), set(), set()),
    "by uid and by group": ((4404, [4404]), {QOS, ROUTES}, set()),
    "in two groups": ((4405, [4405, GATEWAY_GID, 4404]), {ROUTES, WEB, DB}, {ROUTES}),
}

CALL = """
import json, os, sys
import _strptime
sys.path.insert(0, sys.argv[1])
from holdfast.client import Client, HoldfastError
socket, files, uid, groups, scopes, more = json.loads(sys.argv[2])
os.setgroups(groups[1:])
os.setgid(groups[0])
os.setuid(uid)
client = Client(socket, "/nowhere")

def ask(path):
    try:
        answer = client.request("GET", path)
        return answer.body.decode() or "null"
    except HoldfastError as error:
        return getattr(error, "status", None) == 503 and error.code

def reads(place):
    try:
        return bool(open(place).read())
    except OSError:
        return False

def served_by_files(scope):
    try:
        return Client("/nowhere", files).get(scope, scopes[scope][1], expired=bool(more)).facts.expires_at
    except HoldfastError:
        return False

quoted = {scope: scope.replace("/", "%2F") for scope in scopes}
found = {
    "sections": [s for s in scopes if ask(f"/v1/scopes/{quoted[s]}/sections/{scopes[s][1]}{more}")],
    "whole": [s for s in scopes if ask(f"/v1/scopes/{quoted[s]}{more}")],
    "rejections": [s for s in scopes if ask(f"/v1/scopes/{quoted[s]}/rejections")],
    "list": list(json.loads(ask("/v1/scopes"))["scopes"]),
    "watch": list((json.loads(ask("/v1/watch?after=0&wait=0")) or {"scopes": []})["scopes"]),
    "status": json.loads(ask("/v1/status")),
    "metrics": ask("/metrics"),
    "files": [s for s in scopes if reads(f"{files}/{scopes[s][0]}/{scopes[s][1]}.json")],
    "index": reads(f"{files}/index.json"),
    "without the agent": [s for s in scopes if served_by_files(s)],
}
print(json.dumps(found))
"""


@pytest.fixture
def node_of_two_services(periphery, public_folder):
    """With a service of each, and a refusal in every scope that the head lists."""
    services = tuple(LocalService(one.partition("/")[2], (one, ROUTES), NotifierWatch()) for one in (WEB, DB))
    made = replace(periphery, folder=public_folder, access=Access(RULES), files_for="scope", services=services)
    public_folder.chmod(0o755)
    for scope in sorted(OURS):
        scope_type, _, service = scope.partition("/")
        more = {"scope_ids": (service,), "subject_node_id": NODE} if service else {}
        content = {service: {}} if service else {}
        made.apply(made.node.cluster.snapshot(1, {section_of(scope): content}, scope_type, **more))
    made.of_head_wanted = {scope: ScopeVersion(1, 9, "sha256:" + "0" * 64, "listed-9") for scope in OURS}
    made.of_head = OURS
    made.awaited = {scope: AwaitedVersion(1, 9, "listed-9", below_accepted=False, again_in_s=1) for scope in OURS}
    made.candidates = {scope: candidate_state() for scope in OURS}
    made.origins = {scope: DocumentOrigin("listed-9", "https://c:1", "snapshot") for scope in OURS}
    made.refresh_required = sorted(OURS)
    made.given = replace(made.given, scopes={scope: held(NOW + 7 * DAY) for scope in OURS})
    for scope in OURS:
        made.node.store.rejections.record(Rejection(NOW, scope, "expired", 7, True, "", "", 9, "https://c:1"))
    made.telling.notified = {one.name: Notified(1, {}, ok=True, detail="", at=NOW) for one in services}
    return made


def candidate_state() -> CandidateState:
    hash_, at = "sha256:" + "0" * 64, "2027-01-15T08:00:00Z"
    return CandidateState(1, 9, hash_, "coming-9", "c-41", "refused", 12, "validator_refused", "web: exit 1", at)


def section_of(scope: str) -> str:
    return {ROUTES: "routes", QOS: "policies"}.get(scope, "services")


async def seen_by(made, uid, gids, more="") -> dict[str, object]:
    scopes = {scope: [folder_of(scope), section_of(scope)] for scope in sorted(OURS)}
    asked = json.dumps([str(made.socket), str(made.files), uid, gids, scopes, more])
    done = await trio.run_process([sys.executable, "-c", CALL, str(ROOT), asked], capture_stdout=True)
    return json.loads(done.stdout)


def named(text: str) -> set[str]:
    """The scopes whose names stand somewhere in it."""
    return {scope for scope in OURS if scope in text}


@AS_ROOT
@pytest.mark.parametrize("caller", CALLERS)
async def test_every_way_out_gives_the_same_verdict(node_of_two_services, caller):
    """threats D-33, U11: a scope that may not be read is named nowhere, and what may be is there on every way"""
    (uid, gids), readable, _ = CALLERS[caller]
    made = node_of_two_services
    async with serving(made):
        made.socket.chmod(0o666)
        found = await seen_by(made, uid, gids)
    for way in ("sections", "whole", "rejections", "files", "without the agent"):
        assert set(found[way]) == readable, way
    for way in ("list", "watch"):
        assert set(found[way]) & OURS == readable, way
    status = found["status"]
    for member in ("scopes", "refused", "awaited", "origins", "refresh_required"):
        assert set(status[member]) & OURS == readable, member
    assert named(json.dumps(status)) == readable
    assert named(found["metrics"]) == readable
    sees_all = readable == OURS
    assert status["hidden"]["scopes"] == (0 if sees_all else len(OURS - readable) + 2)  # beside these two of the node
    services = {one.name for one in made.services if readable & set(one.scopes)}
    assert set(status["services"]) == services
    assert {name for name in ("web", "db") if f'service="{name}"' in found["metrics"]} == services
    assert found["index"] is sees_all
    assert 'holdfast_scopes{grade="fresh"} 6.0' in found["metrics"]  # how many there are is for everybody
    assert "holdfast_scopes_refused 4.0" in found["metrics"]


@AS_ROOT
@pytest.mark.parametrize("caller", CALLERS)
async def test_what_has_expired_is_for_the_same_on_every_way(node_of_two_services, caller):
    """rules S29: with `?expired=allow`, and as a file; also the folders of former generations are closed then"""
    (uid, gids), readable, expired = CALLERS[caller]
    made = node_of_two_services
    async with serving(made):
        made.socket.chmod(0o666)
        made.at = NOW + 8 * DAY
        with trio.fail_after(60):
            while json.loads((made.files / "index.json").read_bytes())["scopes"][ROUTES]["grade"] != "expired":
                done = made.publishing.rounds.value
                made.active.wake()
                await made.publishing.rounds.wait_above(done)
        assert len(list((made.folder / ".active.generations").iterdir())) == 1
        found = await seen_by(made, uid, gids, "?expired=allow")
        ready = json.loads((await ask(made, "/probe/readiness")).body)
    for way in ("sections", "whole", "files", "without the agent"):
        assert set(found[way]) == expired, way
    assert set(found["status"]["expired"]) == readable
    assert set(ready["expired"]) == OURS  # asked by root
    assert named(" ".join(ready["warnings"])) == OURS


async def over_tcp(made, path: str) -> GateAnswer:
    server = Server("probes", Routes(*made.api.probe_routes()), PlainTransport(), REMOTE)
    listener, port = await tcp_listener()
    async with running(server, listener), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        return GateAnswer.parse(b"".join([piece async for piece in stream]))


@pytest.mark.parametrize("restricted", [True, False])
async def test_over_tcp_names_are_shown_only_while_there_is_no_access_table(node_of_two_services, restricted):
    """Nobody is known there. How many there are of each grade is told all the same, for alarms."""
    made = node_of_two_services
    made.api.access = Access(RULES) if restricted else Access.of_group(0)
    made.at = NOW + 8 * DAY
    expected = set() if restricted else OURS
    text = (await over_tcp(made, "/metrics")).body.decode()
    ready = (await over_tcp(made, "/probe/readiness")).body.decode()
    assert named(text) == named(ready) == expected
    assert json.loads(ready)["cause"] is not None
    assert 'holdfast_scopes{grade="expired"} 5.0' in text  # and the trust bundle
    assert ("web" in text) is not restricted
    assert f"holdfast_scopes_hidden {6.0 if restricted else 0.0}" in text


def test_nobody_in_particular_sees_nothing():
    """threats U06."""
    everything = Access((AccessRule(gids=frozenset({OVERFLOW_UID}), scopes=("*",)),))
    sight = CallerSight(everything, UnixPeer(OVERFLOW_UID, frozenset({OVERFLOW_UID}), 1))
    assert not sight.sees_all and not sight.sees(ROUTES)
    assert not CallerSight(everything, AnonymousPeer("127.0.0.1")).sees(ROUTES)


@pytest.mark.parametrize(
    ("said", "access", "modes"),
    [
        (None, Access.of_group(0), (0o640, 0o750)),
        (None, Access(RULES), (0o600, 0o700)),
        ("group", Access(RULES), (0o640, 0o750)),
        ("owner", Access.of_group(0), (0o600, 0o700)),
    ],
)
def test_files_are_the_owners_alone_as_soon_as_there_is_an_access_table(said, access, modes):
    whose = FileAccess.from_configuration(said, Permissions(gid=4321), access)
    for permissions in (whose.top, whose.index, whose.of(ROUTES, expired=False)):
        assert (permissions.file_mode, permissions.folder_mode) == modes
        assert permissions.readers is None
        assert permissions.gid == (4321 if modes[0] == 0o640 else None)


@AS_ROOT
async def test_a_member_of_the_sockets_group_reads_no_file_beside_an_access_table(node_of_two_services):
    """With the packages' group: what `[access]` keeps from a caller at the socket is kept from it in the files."""
    made = replace(node_of_two_services, files_for=None)
    async with serving(made):
        made.socket.chmod(0o666)
        found = await seen_by(made, 4409, [4409, 0])
        assert found["files"] == found["sections"] == []
        assert found["index"] is False
        assert (await seen_by(made, 0, [0]))["index"] is True


def test_every_word_for_whom_the_files_are_is_one_of_the_settings():
    assert {str(one) for one in FilesFor} == {"owner", "group", "scope"}
