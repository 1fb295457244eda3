"""The daemon, as a process and in one: starts from a file, ends on a signal, says what is wrong with its set-up."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from coordinator import run
from coordinator.base.refusal import Code, Refused
from coordinator.keys.signing_key import UnusableKeyError
from tests.coordinator.daemon import PATIENT, Follower, TlsNode, refusal, running
from tests.coordinator.founding import Founded
from tests.fakes.ports import held_port
from tests.logs import capture_logs
from tests.world import programs
from wire.certificate import Certificate, make_identity
from wire.client import Call, ClientError, HttpClient, UnixConnector
from wire.unix import unix_listener

STATE = "{kind: Node, id: node-a, spec: {roles: [core_mesh]}}"


def started(founded: Founded, before: str) -> subprocess.Popen:
    """`before`: what the process does first."""
    (founded.folder / "coordinator.toml").write_text(founded.text())
    command = [
        sys.executable,
        "-c",
        f"{before}\nfrom coordinator.command import main; main()",
        str(founded.folder / "coordinator.toml"),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def given_up(founded: Founded, status: int, text: str = "") -> str:
    """What one says that ends by itself, with this status."""
    file = founded.folder / "coordinator.toml"
    file.write_text(text or founded.text())
    ran = programs.run("holdfast-coordinator", file, folder=Path.cwd())
    assert ran.status == status, ran
    return ran.err


def event(process: subprocess.Popen, name: str) -> dict:
    """The next line of the log that tells of this event."""
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("{") and json.loads(line)["event"] == name:
            return json.loads(line)
    raise AssertionError("".join(said))


@contextlib.contextmanager
def ended(process: subprocess.Popen) -> Iterator[subprocess.Popen]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


FAULT = """
from coordinator.publishing import declarations
def broken(database, declared, **how):
    kept = declared
    raise RuntimeError("what went wrong")
declarations.carry_out = broken
"""
SECRET = """
{kind: Organization, id: acme}
---
{kind: Node, id: gw-1, spec: {roles: [egress_service], organizations: [acme]}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {nodes: [gw-1]}, settings: {%s: swordfish}}}
"""


async def test_it_serves_until_it_is_told_to_end_and_logs_a_fault_without_what_was_asked(founded: Founded) -> None:
    """threats D-55, D-61: one event a line, levelled; neither a refusal nor an internal fault says what was declared"""
    with ended(started(founded, FAULT)) as process:
        assert (await trio.to_thread.run_sync(event, process, "serving"))["fleet"] > 0
        operator = HttpClient(UnixConnector(), PATIENT)

        async def apply(text: str) -> str:
            body = json.dumps({"files": {"state.yaml": text}}).encode()
            return await refusal(operator.fetch(founded.socket, Call("POST", "/v1/apply", body=body)))

        assert await apply(SECRET % "password") == "invalid_resources"
        assert await apply(SECRET % "greeting") == "internal_error"
        body = json.dumps({"node_id": "gw-1"}).encode()
        answer = await operator.fetch(founded.socket, Call("POST", "/v1/tokens", body=body))
        await operator.aclose()
        process.send_signal(signal.SIGTERM)
        said, log = await trio.to_thread.run_sync(process.communicate)
    assert (process.returncode, said, founded.socket.exists()) == (0, "", False)
    lines = [json.loads(line) for line in log.splitlines()]
    (fault,) = [line for line in lines if line["level"] == "error"]
    assert fault["event"] == "handler failed" and "what went wrong" in fault["exception"]
    for secret in ("swordfish", json.loads(answer.body)["token"], "PRIVATE KEY"):
        assert secret not in log


async def test_each_address_that_is_taken_is_named_with_its_setting(founded: Founded) -> None:
    """One line for each of them, no trace, and the service manager may try again; then it starts."""
    with held_port() as probes, held_port() as admin:
        taken = {"probes": probes, "admin": admin}
        ports = {name: each.getsockname()[1] for name, each in taken.items()}
        for each in taken.values():
            each.listen()
        founded.listen = f'admin = "127.0.0.1:{ports["admin"]}"'
        text = founded.text().replace('probes = "127.0.0.1:0"', f'probes = "127.0.0.1:{ports["probes"]}"')
        said = await trio.to_thread.run_sync(given_up, founded, run.COME_AGAIN, text)
    lines = said.splitlines()
    assert len(lines) == 2
    for line, (name, port) in zip(lines, ports.items(), strict=True):
        assert f"127.0.0.1:{port}: another program listens there" in line
        assert line.endswith(f"[listen] {name}")
    file, log = founded.folder / "coordinator.toml", founded.folder / "log"
    process = programs.start("holdfast-coordinator", file, folder=Path.cwd(), log=log)
    try:
        with trio.fail_after(120):
            while '"serving"' not in log.read_text():
                assert process.poll() is None, log.read_text()
                await trio.sleep(0.01)
        (line,) = (json.loads(line) for line in log.read_text().splitlines() if '"serving"' in line)
        assert line["probes"] == ports["probes"]
    finally:
        process.kill()
        process.wait(60)


def test_a_host_that_has_no_address_is_wrong_configuration(founded: Founded) -> None:
    text = founded.text().replace('join = "127.0.0.1:0"', 'join = "no-such-host.invalid:7444"')
    said = given_up(founded, run.WRONG_CONFIGURATION, text)
    assert said.startswith("holdfast-coordinator: no-such-host.invalid:7444: ")
    assert said.endswith("[listen] join\n") and said.count("\n") == 1


def test_an_admin_socket_that_somebody_serves_is_named_with_its_setting(founded: Founded) -> None:
    with unix_listener(founded.socket):
        said = given_up(founded, run.COME_AGAIN)
    assert said.count("\n") == 1
    assert str(founded.socket) in said and "[listen] admin_socket" in said


def test_a_wrong_configuration_is_named_and_nothing_starts(founded: Founded) -> None:
    """rules A14, J39"""
    founded.settings = "head_lifetime = 1"
    said = given_up(founded, run.WRONG_CONFIGURATION)
    assert "did you mean head_lifetime_s" in said and "Traceback" not in said


def test_before_there_is_a_cluster_it_says_how_one_begins(founded: Founded) -> None:
    Path(founded.configuration().certificate).unlink()
    said = given_up(founded, run.WRONG_CONFIGURATION)
    assert "no such file; a cluster begins with `holdfastctl init`" in said and "Traceback" not in said


async def test_a_second_coordinator_on_one_sqlite_file_stops_at_once(founded: Founded) -> None:
    """rules P8, P28"""
    async with running(founded):
        with pytest.raises(Refused) as found:
            run.build(founded.configuration())
        assert found.value.code is Code.IN_USE


def test_a_database_that_does_not_answer_ends_the_start_with_a_word(founded: Founded, tmp_path: Path) -> None:
    """rules P1: unlike wrong configuration it is worth another start."""
    founded.url = f"postgresql+psycopg://holdfast@/postgres?host={tmp_path}"
    said = given_up(founded, run.COME_AGAIN)
    assert "the database does not answer" in said and "Traceback" not in said
    assert "has nothing to sign again" in said


@pytest.mark.parametrize("url", ["sqlite:///{}/notes.txt", "nonsense"])
def test_what_is_no_database_is_named(founded: Founded, tmp_path: Path, url: str) -> None:
    """rules A14: another start would find the same."""
    (tmp_path / "notes.txt").write_text("these are notes, and no database at all\n" * 100)
    founded.url = url.format(tmp_path)
    said = given_up(founded, run.WRONG_CONFIGURATION)
    assert "database.url" in said and "Traceback" not in said
    assert ("not a database" in said) == ("notes" in url)
    assert (tmp_path / "notes.txt").read_text().startswith("these are notes")


def test_a_database_without_a_cluster_issues_nothing(founded: Founded, tmp_path: Path) -> None:
    """rules J34, H37"""
    founded.url = f"sqlite:///{tmp_path}/empty.db"
    with pytest.raises(Refused) as found:
        run.build(founded.configuration())
    assert found.value.code is Code.DATABASE_MISSING  # its keys are there: lost_database.py
    assert not (tmp_path / "empty.db").exists()


def test_a_key_of_another_certificate_is_named(founded: Founded) -> None:
    """Both files and the remedy; never a question on a terminal"""
    other = make_identity("localhost", founded.now)
    (founded.folder / "server.key").write_bytes(other.key_pem)
    said = given_up(founded, run.WRONG_CONFIGURATION)
    for word in ("server.key", "server.crt", "made together"):
        assert word in said, said


def test_a_key_that_others_may_read_is_refused(founded: Founded) -> None:
    """threats D-61"""
    (founded.folder / "token.pem").chmod(0o644)
    with pytest.raises(UnusableKeyError, match=r"token\.pem"):
        run.build(founded.configuration())


async def test_after_a_restart_everything_is_as_it_was(founded: Founded) -> None:
    """rules P7, S7: a node takes up where it was, and nothing is issued again without cause."""
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await at.declare(STATE)
        while follower.holder.roles != {"core_mesh"}:
            await follower.sync(wait=10)
    async with running(founded) as at:
        follower.node = TlsNode(at, "node-a", pair=follower.node.pair)
        assert not await follower.sync(wait=1)
        assert at.daemon.coordinator.publisher.health.published_heads == 0
        await at.declare(STATE.replace("core_mesh", "thin"))
        await follower.sync(wait=60)
        assert follower.holder.roles == {"thin"}


async def test_who_waits_is_told_when_it_stops(founded: Founded) -> None:
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        said = []

        async def waiting() -> None:
            said.append(await refusal(follower.node.head(follower.generation, 1, wait=60)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting)
            await at.polls_held(1)
            os.kill(os.getpid(), signal.SIGTERM)
        assert said == ["shutting_down"]


async def test_connections_of_one_address_are_as_many_as_configured(founded: Founded) -> None:
    """threats M13, D-49: at the fleet's door and at the joins', each"""
    founded.listen = "connections_per_address = 2"
    async with running(founded) as at:
        for port in (at.ports.fleet, at.ports.join):
            held = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
            async with await trio.open_tcp_stream("127.0.0.1", port) as surplus:
                with trio.fail_after(60), contextlib.suppress(trio.BrokenResourceError):
                    assert await surplus.receive_some(1) == b""
            for stream in held:
                await stream.aclose()
        turned_away = [at.daemon.servers[name].statistics().turned_away for name in ("fleet", "join")]
        assert turned_away == [1, 1]


async def test_probes_tell_liveness_from_readiness(founded: Founded) -> None:
    """rules H18, H19, H20, H42, J46, X13"""
    async with running(founded) as at:
        assert (await at.probe("/probe/startup"))[0] == 200
        assert (await at.probe("/probe/readiness"))[0] == 200
        (founded.folder / "state.db").rename(founded.folder / "away.db")
        (founded.folder / "state.db").mkdir()
        at.daemon.keeper._at.database.engine.dispose()  # last: a connection made before it would still be good
        await at.daemon.keeper.look()
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"database" in said
        assert (await at.probe("/probe/liveness"))[0] == 200


async def test_an_expired_trust_bundle_is_the_end_of_readiness(founded: Founded) -> None:
    async with running(founded, now=lambda: founded.now + 91 * 86_400) as at:
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"trust bundle has expired" in said


async def test_without_a_key_that_signs_it_is_not_ready(founded: Founded) -> None:
    """rules J46, S40: also while nothing is due; a metric and the status have the reason"""
    async with running(founded) as at:
        at.daemon.coordinator.publisher.keys = ()
        await at.daemon.keeper.look()
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"no_signer" in said
        assert 'holdfast_coordinator_unpublishable{reason="no_signer"} 1.0' in (await at.probe("/metrics"))[1].decode()
        assert (await at.ask("GET", "/v1/status"))["publishing"]["fault"].startswith("no_signer")
        at.daemon.coordinator.publisher.keys = (founded.config,)
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200
        assert "unpublishable{" not in (await at.probe("/metrics"))[1].decode()


async def test_a_clock_that_was_ahead_is_a_loud_fault_until_the_epoch_is_raised(founded: Founded) -> None:
    """rules K47, J46: probe, status, metric and log have the reason and the way back, and nothing goes out"""
    now = [founded.now + 100_000]
    async with running(founded, now=lambda: now[0]) as at:
        node = await at.admit("node-a")  # signs its head by that clock
        now[0] = founded.now + 60
        with capture_logs() as logs:
            await at.daemon.keeper.look()
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"clock_behind" in said and b"epoch raise" in said
        assert (await at.ask("GET", "/v1/status"))["publishing"]["fault"].startswith("clock_behind")
        assert "clock_behind" in next(line["reason"] for line in logs if line["event"] == "not ready")
        metrics = (await at.probe("/metrics"))[1].decode()
        assert 'holdfast_coordinator_unpublishable{reason="clock_behind"} 1.0' in metrics
        head = (await node.head()).body
        await at.declare(STATE)
        with pytest.raises(ClientError, match="clock_behind"):
            await at.ask("POST", "/v1/trust/requests", {})
        assert (await node.head()).body == head

        founded.bundles.now = now[0]
        bundle = founded.bundles.next(epoch=2)
        await at.ask("POST", "/v1/trust", {"document": base64.b64encode(bundle).decode()})
        with trio.fail_after(60):
            while at.daemon.coordinator.board.latest("node-a").pair[0] < 2:
                await trio.testing.wait_all_tasks_blocked(0.01)
        follower = Follower(node)
        follower.take(bundle, "snapshot", now[0])
        await follower.sync(now=now[0])
        assert follower.holder.roles == {"core_mesh"}
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200


async def test_while_the_clock_has_jumped_nothing_is_dated(founded: Founded) -> None:
    """rules K47: neither by the publisher nor for root keys to sign"""
    async with running(founded) as at:
        at.daemon.coordinator.publisher.clock_fault = lambda: "clock_jumped: by 100000 s"
        await at.daemon.keeper.look()
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"clock_jumped" in said
        assert await refusal(at.ask("POST", "/v1/trust/requests", {})) == "clock_jumped"
        asked = {"node_id": "node-a", "scope": "route_policy", "to_config_version": 1}
        assert await refusal(at.ask("POST", "/v1/recoveries/requests", asked)) == "clock_jumped"


async def test_metrics_say_what_goes_on(founded: Founded) -> None:
    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        await follower.node.head(99, 9)
        text = (await at.probe("/metrics"))[1].decode()
        for line in (
            "holdfast_coordinator_ready 1.0",
            "holdfast_coordinator_published_heads_total 1.0",
            "holdfast_coordinator_pinned_certificates 1.0",
            'holdfast_coordinator_alarms_total{name="node_ahead"} 1.0',
            'holdfast_coordinator_connections{listener="fleet"}',
        ):
            assert line in text
        expires = text.partition("\nholdfast_coordinator_certificate_expiry_timestamp_seconds ")[2].partition("\n")[0]
        assert float(expires) == Certificate.read(founded.certificate.der).not_after > founded.now


async def test_new_keys_are_read_on_a_signal(founded: Founded) -> None:
    """rules S36: the new key signs as soon as the bundle says so."""
    from coordinator.database import documents
    from coordinator.keys import keystore
    from coordinator.keys.signing_key import SigningKey
    from snapshot.bundle import CONFIG

    async with running(founded) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync()
        new = SigningKey.generate()
        keystore.keep(founded.folder / "keys", CONFIG, new)
        os.kill(os.getpid(), signal.SIGHUP)
        with trio.fail_after(60):
            while new.key_id not in {key["key_id"] for key in (await at.ask("GET", "/v1/keys"))["keys"]}:
                await trio.testing.wait_all_tasks_blocked(0.01)
        bundle = founded.bundles.next(keys=(founded.config, new))
        await at.ask("POST", "/v1/trust", {"document": base64.b64encode(bundle).decode()})
        wanted = {founded.config.key_id, new.key_id}
        database = at.daemon.coordinator.database
        while {key_id for key_id, _ in documents.head(database, "node-a").signatures} != wanted:
            await follower.sync(wait=5)
        assert follower.holder.bundle.version == 2
