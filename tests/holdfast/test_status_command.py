"""`holdfast status`: a screen for a person, everything for a program."""

import io
import itertools
import json
import os
import pty
import signal
import socket
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import trio
from click.testing import CliRunner
from rich.console import Console

from agent.services.notifiers import Told
from agent.services.services import LocalService
from holdfast.client import unix_seconds
from holdfast.node.agent_options import AGENT_DOWN
from holdfast.node.command import main
from holdfast.node.explanations import cause_text, join_text
from holdfast.node.status_screen import problems_of, screen
from snapshot.degraded import GateFacts
from snapshot.identifiers import HEAD, format_time
from snapshot.manifest import ScopeVersion
from store.base.records import ProbationTerms, Rejection
from tests.agent.lab import NOW, asked_source, serving
from tests.holdfast.lab import arguments, environment, holdfast
from tests.store.cluster import BOOT
from wire.local.node_status import CandidateState, JoinTrouble, NodeStatus, ReplicatedStore, StorageCondition
from wire.messages import DocumentOrigin, RelayCondition


class Refusing:
    async def tell(self, service: str, generation: int) -> Told:
        return Told(False, "exit 1: port in use")


async def test_at_a_glance(api):
    done = await holdfast("status", at=api)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert done.status == 0
    assert lines[0] == f"ACTIVE node-1 in blue generation {api.node.store.watch.generation}"
    assert lines[1].startswith("confirmed by the coordinator head 1, expires in 23 h")
    api.sources = [asked_source("manual", "https://m:1")]
    assert "\nconfirmed by its manual map  head 1" in (await holdfast("status", at=api)).out
    api.sources = []
    assert any(line.startswith("route_policy 1.1 fresh in 6 d") for line in lines)
    assert "To look at" not in done.out


async def test_what_is_amiss_stands_there_with_its_remedy(periphery):
    made = replace(periphery, state="fenced", services=(LocalService("web", ("route_policy",), Refusing()),))
    made.given = GateFacts(head_expires_at=NOW)
    made.route(1, {"routes": {}})
    made.node.store.rejections.record(Rejection(NOW + 1, "route_policy", "raw_secret", 12, True))
    made.at = NOW + 6
    async with serving(made):
        await made.recorded("web", ok=False)
        done = await holdfast("status", at=made)
    words = " ".join(done.out.split())
    assert words.startswith("FENCED node-1 in blue")
    assert cause_text("no_degraded_policy") in words
    assert "route_policy was refused 5 s ago: raw_secret." in words
    assert "web no, no_degraded_policy" in words
    assert "web could not be told: exit 1: port in use" in words


def coming(verdict: str, *why: object, change: str | None = "c-41") -> CandidateState:
    step, reason, detail = why or (None, "", "")
    at = None if verdict == "awaited" else "2027-01-15T08:00:00Z"
    return CandidateState(1, 9, "sha256:" + "0" * 64, "coming-9", change, verdict, step, reason, detail, at)


async def test_what_is_coming_stands_there_with_what_this_node_makes_of_it(api):
    api.candidates = {
        "node_runtime": coming("accepted"),
        "qos_policy": coming("awaited", change=None),
        "route_policy": coming("refused", 12, "validator_refused", "web: exit 1: no such port"),
        "config/big": coming("refused", None, "store_full", "the candidate config/big has given way"),
    }
    done = await holdfast("status", at=api)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    for line in (
        "node_runtime 1.9 c-41 accepted",
        "qos_policy 1.9 - awaited",
        "route_policy 1.9 c-41 validator_refused",
    ):
        assert line in lines
    words = " ".join(done.out.split())
    assert (
        "route_policy 1.9, which is to come with c-41, could not be run here: validator_refused: web: exit 1" in words
    )
    assert "A service's own validator did not accept the candidate." in words
    assert "config/big 1.9, which is to come with c-41, could not be run here: store_full" in words
    assert lines[0].startswith("ACTIVE"), "nothing of it runs, and nothing that runs is worse for it"
    api.candidates = {}
    assert "COMING" not in (await holdfast("status", at=api)).out


async def test_on_a_narrow_screen_a_name_stays_in_one_piece(api):
    """And nothing is said of refusals where there are none"""
    status = json.loads((await holdfast("status", "--json", at=api)).out)
    assert "LAST REFUSED" not in (await holdfast("status", at=api)).out
    name = "service_assignment/checkout-frontend-europe-west"
    refused = {"at": format_time(NOW - 180), "reason": "validator_refused", "step": 12, "config_version": 2,
               "snapshot_id": "route-2"}  # fmt: skip
    status["scopes"][name] = {**status["scopes"]["route_policy"], "last_rejected": refused}
    console = Console(file=io.StringIO(), width=80)
    console.print(screen(NodeStatus.from_value(status), NOW))
    lines = console.file.getvalue().splitlines()
    assert any(line.startswith(f"{name} ") for line in lines), lines
    assert any("LAST" in line for line in lines)
    assert max(map(len, lines)) <= 80


async def test_that_something_is_not_for_the_caller_is_said(api):
    """A part that looks like all of it would hide what is amiss with the rest."""
    status = json.loads((await holdfast("status", "--json", at=api)).out)
    status["hidden"] = {"scopes": 3, "services": 1}
    status["files"] |= {"fault": "files_full"}
    console = Console(file=io.StringIO(), width=200)
    console.print(screen(NodeStatus.from_value(status), NOW))
    assert "not for this account: 3 scopes, 1 services; root sees all" in console.file.getvalue()
    assert "the files are not up to date: files_full" in console.file.getvalue()


async def test_a_start_that_nobody_has_confirmed_says_so(api):
    """rules A15: a fresh head on the disk is no word of a coordinator's in this run"""
    confirmed = (await holdfast("status", at=api)).out
    assert "\nconfirmed by the coordinator  head " in confirmed
    api.rollback_check = "unconfirmed"
    out = (await holdfast("status", at=api)).out
    assert "\nnot confirmed by the coordinator since the start  head " in out
    assert "\nconfirmed" not in out


async def test_a_refusal_that_a_good_version_followed_is_nothing_to_look_at(api):
    api.node.store.rejections.record(Rejection(NOW - 5, "route_policy", "raw_secret", 12, True))
    peer = {"node_id": "node-b", "peer_set": "cold", "near": True, "named_by": "peer_directory"}
    api.sources = [
        asked_source(error="tls_failed", failures=1),
        asked_source("peer", "https://b:1", error="is behind", failures=1, **peer),
    ]
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert "raw_secret, 5 s ago" in words  # in the table it stays
    assert "was refused" not in words
    assert "https://c:1 (coordinator): tls_failed" in words
    assert "https://b:1 (peer node-b, cold): is behind" in words


async def test_tried_and_went_back_is_said_as_such(api):
    """... and not as a version that never came; while it is on probation, that is said"""
    node = api.node
    tried = node.verified(node.cluster.snapshot(2, {"routes": {"b": {}}}))
    node.store.activate(tried, now=NOW, boot=BOOT, probations={"route_policy": ProbationTerms(60.0)})
    api.at = NOW + 10
    line = next(line for line in (await holdfast("status", at=api)).out.splitlines() if line.startswith("route_policy"))
    assert "1.2 (on probation, in 50 s)" in " ".join(line.split())
    node.store.revert("route_policy", check="proxy", detail="exit 1", now=NOW + 10)
    node.store.rejections.record(Rejection(NOW + 10, "route_policy", "quarantined", 12, True, config_version=2))
    api.of_head_wanted = {"route_policy": ScopeVersion(1, 2, tried.content_hash, "s-2")}
    api.at = NOW + 40
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert "route_policy 1.1 fresh" in words
    said = "route_policy tried version 2 30 s ago, which failed (proxy: exit 1), and went back: it runs 1.1;"
    assert f"{said} apply other content, or once it is mended: holdfast quarantine clear SCOPE" in words
    assert words.count("- route_policy") == 1, "once"


async def test_nothing_to_go_back_to_is_said(api):
    node = api.node
    tried = node.verified(node.cluster.snapshot(1, {"qos": {}}, "qos_policy"))
    node.store.activate(tried, now=NOW, boot=BOOT, probations={"qos_policy": ProbationTerms(60.0)})
    node.store.revert("qos_policy", check="proxy", detail="", now=NOW)
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert "which failed (proxy), and had nothing to go back to: it runs on" in words


async def test_a_head_that_was_refused_is_said_until_the_next_is_taken(api):
    """The one that is held goes on to be held, and is not missing."""
    api.node.store.rejections.record(Rejection(NOW + 5, HEAD, "unknown_key", 5, False))
    api.at = NOW + 6
    done = await holdfast("status", at=api)
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert any(line.startswith("head 1.1 fresh in 23 h") and "unknown_key, 1 s ago" in line for line in lines)
    assert "head was refused 1 s ago: unknown_key." in " ".join(lines)
    assert "missing" not in done.out and "not active" not in done.out
    api.node.apply(api.node.cluster.head(2), now=NOW + 7)
    api.at = NOW + 8
    assert "unknown_key" not in (await holdfast("status", at=api)).out


async def test_a_refused_scope_is_missing_until_the_head_does_not_list_it(api):
    """rules S3"""
    api.node.store.rejections.record(Rejection(NOW - 5, "qos_policy", "validator_refused", 12, True))
    api.of_head = {"route_policy", "qos_policy"}
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert "qos_policy - missing" in words
    assert "qos_policy was refused 5 s ago: validator_refused." in words
    assert "qos_policy is not active: holdfast explain qos_policy" in words
    api.of_head = {"route_policy"}
    assert "qos_policy" not in (await holdfast("status", at=api)).out


async def test_a_join_that_fails_is_said_with_its_remedy_and_the_next_try(api):
    """rules A3, K15"""
    at, again_at = ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z")
    api.at, api.state, api.cause = unix_seconds(at) + 10.0, "joining", "joining"
    api.join = JoinTrouble("tls_failed", "c:1: self-signed certificate", refused=False, at=at, again_at=again_at)
    words = " ".join((await holdfast("status", at=api)).out.split())
    assert words.startswith("JOINING")
    assert f"not a member yet: tls_failed: c:1: self-signed certificate: {join_text('tls_failed')}" in words
    assert "tried 10 s ago, again in 50 s" in words


async def test_everything_for_a_program(api):
    value = json.loads((await holdfast("status", "--json", at=api)).out)
    assert value["scopes"]["route_policy"]["active"]["config_version"] == 1
    assert list(problems_of(NodeStatus.from_value(value), NOW)) == []
    assert (await holdfast("status", "--json", "--watch", at=api)).status == 2


async def test_what_ends_is_to_be_looked_at(api):
    value = json.loads((await holdfast("status", "--json", at=api)).out)
    bundle = {"what": "trust_bundle", "name": "3", "begins": format_time(NOW), "said_from": format_time(NOW),
              "ends": format_time(NOW + 5 * 86_400), "urgency": "soon",
              "then": "this node believes nothing new", "remedy": "holdfastctl due"}  # fmt: skip
    value["ends"] = [bundle, bundle | {"what": "ca_certificate", "name": "sha256:" + "ab" * 32, "urgency": "fine"}]
    said = "trust bundle 3 ends in 5 d: this node believes nothing new; holdfastctl due"
    assert list(problems_of(NodeStatus.from_value(value), NOW)) == [said]
    value["ends"] = [bundle | {"urgency": "ended"}]
    assert "trust bundle 3 has ended 1 d ago" in " ".join(problems_of(NodeStatus.from_value(value), NOW + 6 * 86_400))


async def test_nobody_answers():
    done = await holdfast("status")
    assert (done.status, done.out) == (3, "")
    assert done.err.count("\n") == 1


async def test_live_on_a_terminal_until_interrupted(api):
    """It goes on when the agent's answers change, and gives the terminal back."""
    ours, theirs = pty.openpty()
    process = await trio.lowlevel.open_process(
        arguments("status", "--watch"), env=environment(api.socket, api.files, TERM="xterm"), stdout=theirs
    )
    os.close(theirs)
    seen = bytearray()

    async def until_shown(words: bytes) -> None:
        with trio.fail_after(120):
            while words not in seen:
                await trio.lowlevel.wait_readable(ours)
                seen.extend(os.read(ours, 65536))

    await until_shown(b"ACTIVE")
    api.state = "degraded"
    await until_shown(b"DEGRADED")
    process.send_signal(signal.SIGINT)
    await until_shown(b"\x1b[?1049l")  # the screen that was there before
    with trio.fail_after(60):
        assert await process.wait() == 0
    os.close(ours)


def test_a_socket_that_may_not_be_opened_is_said_with_the_remedy():
    """Not as wrong usage: the person asked rightly, and lacks a group."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        Path(folder).chmod(0o755)
        listening.bind(f"{folder}/agent.sock")
        listening.listen()
        Path(folder, "agent.sock").chmod(0)
        Path(folder, "active").mkdir(mode=0)
        CliRunner().invoke(main, ["status", "--help"])  # loads it, from a clone that may be for root alone
        with as_an_ordinary_user():
            places = ["--socket", f"{folder}/agent.sock", "--files", f"{folder}/active"]
            done = CliRunner().invoke(main, ["status", *places])
    assert done.exit_code == AGENT_DOWN, done.output
    assert "join the socket's group" in done.output


@contextmanager
def as_an_ordinary_user():
    """The real uid counts too: os.access looks at that one."""
    before = os.getresuid()
    if before[0] == 0:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(*before)


async def test_an_answer_that_cannot_be_written(api):
    """One line, not a trace: a disk that is full."""
    for words, unbuffered in itertools.product((["status", "--json"], ["status"], ["get", "route_policy"]), ("", "1")):
        env = environment(api.socket, api.files, PYTHONUNBUFFERED=unbuffered)
        with open("/dev/full", "wb") as full:  # noqa: ASYNC230, PTH123 - a device
            done = await trio.run_process(arguments(*words), env=env, stdout=full, capture_stderr=True, check=False)
        assert done.stderr.decode().splitlines() == [
            "holdfast: the answer could not be written: No space left on device"
        ]
        assert done.returncode == 74


async def test_a_storage_node_has_a_line_for_each_store_that_it_copies_from(api):
    well = ReplicatedStore("depot-1", "https://a:1", "", 0, 0, 12, 0, 40, 0)
    ill = ReplicatedStore("depot-2", "https://b:1", "32 of its files were refused", 2, 90, None, 7, 0, 32)
    api.storage = StorageCondition(41, 3 << 20, 1 << 30, False, (well, ill))
    said = [" ".join(line.split()) for line in (await holdfast("status", at=api)).out.splitlines()]
    assert "stores what is published: 41 files, 3 MiB of 1 GiB; copied from other stores" in said
    first, second = said[said.index("COPIED FROM LAST LISTED COPIED REFUSED NOT HERE TROUBLE") + 1 :][:2]
    assert first == "depot-1 12 s ago 40 0 0 -"
    assert second.startswith("depot-2 - 0 32 7 32 of its files were refused")
    assert "again in 1 min 30 s" in " ".join(said)
    assert json.loads((await holdfast("status", "--json", at=api)).out)["storage"]["sources"][1]["refused"] == 32
    api.storage = replace(api.storage, has_coordinator=True)
    assert "; a coordinator brings it" in (await holdfast("status", at=api)).out
    api.storage = replace(api.storage, sources=())
    out = (await holdfast("status", at=api)).out
    assert ("41 files" in out, "COPIED FROM" in out, "a coordinator" in out) == (True, False, False)


async def test_who_relays_for_it_and_from_whom_it_has_what_it_runs(api):
    active = api.views.all().scopes["route_policy"].document.envelope.snapshot_id
    api.origins = {"route_policy": DocumentOrigin(active, "https://r:7447", "snapshot", "relay", "node-r")}
    relay = asked_source("peer", "https://r:7447", node_id="node-r", peer_set="active", near=True, relay=True)
    far = asked_source("peer", "https://f:7447", node_id="node-f", peer_set="warm", near=False, relay=False)
    api.sources = [
        replace(far, again_in_s=40, lacks=2, trust_bundle_version=0, worked_s_ago=90),
        replace(relay, worked_s_ago=12, lacks=0, trust_bundle_version=7),
    ]
    api.relay = RelayCondition(("node-b",), 1, 7, 3 << 20, 1 << 30)
    said = [" ".join(line.split()) for line in (await holdfast("status", at=api)).out.splitlines()]
    assert any(line.startswith("route_policy 1.1 fresh in 6 d 23 h relay node-r") for line in said)
    first, second = said[said.index("PEER IS ASKED LAST WORKED BEHIND") + 1 :][:2]
    assert first == "node-r relay of this site active 12 s ago -"
    assert second.startswith("node-f elsewhere in 40 s 1 min 30 s ago")
    assert "lacks the last 2 documents" in " ".join(said)
    assert "keeps for its neighbours: neighbour, for 1 node: 1 head and 7 documents, 3 MiB of 1 GiB" in said
    api.relay = RelayCondition(("node-b",), 0, 0, 0, 1 << 30)
    assert "keeps for its neighbours" not in (await holdfast("status", at=api)).out, "nothing, and it relays for nobody"
