"""Joining: what is pinned, what a crash leaves, and what a false grant does not do."""

import os
import signal
import time

import pytest
import trio

from agent.config.configuration import AgentSettings, TrustTable
from holdfast.client import unix_seconds
from holdfast.node.status_screen import problems_of
from snapshot import canonical
from snapshot.bundle import ROOT
from tests.fakes.cluster import CLUSTER_ID, HOUR, Cluster, Trusted, key
from tests.fakes.coordinator_server import BARE_TOKEN, TOKEN, token_naming
from tests.journeys.lab import lab, put_token
from tests.world import elapsed
from wire.certificate import is_proven, make_authority, make_identity, prove
from wire.client import Call, ClientError, HttpClient, UnixConnector
from wire.local.node_status import NodeStatus
from wire.messages import JoinGrant
from wire.request import JSON

ROUTES = "route_policy"
REFUSED_TOKEN = token_naming(["root-1"], 1, "bm8")
CONFIG_KEY = {"config-1": Trusted(key("config-1"))}
FIRST_USE = "[trust]\ntrust_on_first_use = true\n"


def grant_with(one, *documents):
    """Every grant has these documents in place of the true ones."""

    def spoil(path, data):
        if path != "/v1/join":
            return data
        grant = JoinGrant.parse(data)
        return JoinGrant(grant.outcome, grant.coordinator_id, tuple(documents)).to_bytes()

    one.server.spoil = spoil


async def refused(one):
    await one.until(lambda: one.node.counters.of("joins_failed") > 1)
    assert one.node.store.enrolment is None or not one.node.membership.is_member
    assert not one.node.holdings.kept.active
    one.server.spoil = lambda _, data: data
    await one.settled()


def kept_by(one):
    """What the files of an agent hold that has ended: while it runs, some come and go."""
    return [path.read_bytes() for path in one.settings.node.state_directory.rglob("*") if path.is_file()]


async def test_what_a_join_sends(one, mock_clock):
    """rules J1, J3, K16: the fake checks the proof, the server's fingerprint and the token; the body has no more"""
    async with one.agent():
        await one.settled()
        enrolled = one.node.store.enrolment
        assert enrolled.trusted_by == "join token"
        assert enrolled.confirmed
        assert set(enrolled.root_keys) == {key(name).key_id for name in ("root-1", "root-2", "root-3")}
        assert enrolled.root_threshold == 2
        assert enrolled.minimum_time == one.cluster.first_bundle.envelope.issued_at
    token = canonical.dumps(TOKEN)[1:-1]
    assert not any(token in data for data in kept_by(one)), "a token is never kept"


async def test_trust_on_first_use_is_shown_until_the_configuration_names_the_roots(tmp_path, mock_clock):
    """threats D-19: in the status, its words and the metrics; pins of other roots confirm nothing"""
    async with lab(tmp_path, mock_clock, text=FIRST_USE) as one:
        put_token(one.folder / "join.token", BARE_TOKEN)
        async with one.agent():
            assert (await one.status())["roots"] is None
            await one.settled()
            status = await one.status()
            roots = status["roots"]
            assert (roots["trusted_by"], roots["confirmed"], roots["root_threshold"]) == ("first use", False, 2)
            assert any(
                "nobody has confirmed them" in problem
                for problem in problems_of(NodeStatus.from_value(status), one.clock.true)
            )
            assert await unconfirmed_in_metrics(one) == "1.0"
        pins = tuple(roots["root_key_ids"])
        for named, confirmed in ((pins[:2], False), ((*pins, key("another").key_id), False), (pins, True)):
            async with one.agent(trust=TrustTable(root_key_ids=named)):
                status = await one.status()
                assert (status["roots"]["confirmed"], status["roots"]["trusted_by"]) == (confirmed, "first use")
        async with one.agent(trust=TrustTable(root_key_ids=pins)):
            status = await one.status()
            assert not any(
                "nobody has confirmed" in problem
                for problem in problems_of(NodeStatus.from_value(status), one.clock.true)
            )
            assert await unconfirmed_in_metrics(one) == "0.0"


async def test_a_join_that_names_no_roots_is_refused_before_anything_is_sent(one, mock_clock):
    """threats D-19: whoever answers would be believed; a token that names them is taken at once"""
    file = one.folder / "join.token"
    put_token(file, BARE_TOKEN)
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        status = await one.status()
        assert (status["state"], status["cause"]) == ("unenrolled", "roots_not_pinned")
        assert (status["join"]["code"], status["join"]["refused"]) == ("roots_not_pinned", True)
        assert one.server.requests == [] and one.node.store.enrolment is None
        put_token(file)
        await one.settled()
        assert one.node.store.enrolment.trusted_by == "join token"
        assert not (await one.status())["join"]


@pytest.mark.parametrize("named", [["other-1", "other-2", "other-3"], ["root-1", "other-2", "other-3"]])
async def test_an_attackers_coordinator_at_the_first_join(one, mock_clock, named):
    """threats D-19: it has the genuine one's TLS key, and a bundle of its own roots, perhaps among genuine ones.
    The token's roots are not its roots: nothing is pinned or held, and the genuine join goes through afterwards.
    """
    attackers = Cluster(trusted={name: Trusted(key(name), purpose=ROOT) for name in named} | CONFIG_KEY)
    grant_with(one, attackers.first_bundle.to_bytes())
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert (await one.status())["join"]["code"] == "other_roots"
        assert one.node.store.enrolment is None
        assert not one.node.holdings.kept.active and one.node.holdings.bundle is None
        assert not (await one.may("start_service"))["allowed"]
        one.server.spoil = lambda _, data: data
        await one.settled()
        assert set(one.node.store.enrolment.root_keys) == {key(f"root-{number}").key_id for number in (1, 2, 3)}


async def test_an_attacker_who_lists_the_genuine_roots_cannot_sign_with_them(one, mock_clock):
    """threats D-19: key ids are public. It names all three, asks for one signature, and has none of their keys"""
    named = ("root-1", "root-2", "root-3", "other-1")
    roots = {name: Trusted(key(name), purpose=ROOT) for name in named}
    attackers = Cluster(root_threshold=1, trusted=roots | CONFIG_KEY)
    grant_with(one, attackers.trust_bundle(keys=[key("other-1")], config_version=1).to_bytes())
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert (await one.status())["join"]["code"] == "not_granted"
        assert one.node.store.enrolment is None and one.node.holdings.bundle is None
        one.server.spoil = lambda _, data: data
        await one.settled()
        assert one.node.store.enrolment.root_threshold == 2


async def test_a_token_file_that_says_first_use(one, mock_clock):
    """threats D-19: what `holdfast join --trust-on-first-use` leaves; the second line is not sent"""
    put_token(one.folder / "join.token", f"{BARE_TOKEN}\ntrust-on-first-use\n")
    async with one.agent():
        await one.settled()
        enrolled = one.node.store.enrolment
        assert (enrolled.trusted_by, enrolled.confirmed) == ("first use", False)


async def confirm(one, named, threshold):
    client = HttpClient(UnixConnector())
    body = canonical.dumps({"root_key_ids": list(named), "root_threshold": threshold})
    call = Call("POST", "/v1/trust/confirm", headers=[JSON], body=body)
    try:
        return canonical.loads((await client.fetch(one.settings.local.socket_path, call)).body)
    except ClientError as error:
        return error.code
    finally:
        await client.aclose()


async def test_nothing_of_high_risk_until_somebody_has_compared_the_roots(tmp_path, mock_clock):
    """threats D-19: other keys, some of them or another threshold confirm nothing; what is right is kept"""
    async with lab(tmp_path, mock_clock, text=FIRST_USE) as one:
        put_token(one.folder / "join.token", BARE_TOKEN)
        async with one.agent():
            assert await confirm(one, [key("root-1").key_id], 1) == "not_enrolled"
            await one.settled()
            genuine = sorted(one.node.store.enrolment.root_keys)
            assert (await one.may("open_route", scope=ROUTES, resource="north"))["reason"] == "roots_unconfirmed"
            assert (await one.may("preserve_routes", scope=ROUTES, resource="north"))["allowed"]
            others = [key(f"other-{number}").key_id for number in (1, 2, 3)]
            for named, threshold in ((others, 2), (genuine[:2], 2), ([*genuine, others[0]], 2), (genuine, 1)):
                assert await confirm(one, named, threshold) == "other_roots"
            assert not one.node.store.enrolment.confirmed
            assert (await one.may("open_route", scope=ROUTES, resource="north"))["reason"] == "roots_unconfirmed"
            assert one.server.heartbeats[-1].roots_confirmed is False
            said = await confirm(one, genuine, 2)
            assert (said["outcome"], said["root_key_ids"], said["root_threshold"]) == ("confirmed", genuine, 2)
            assert (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"]
            assert await unconfirmed_in_metrics(one) == "0.0"
            await one.until(lambda: one.server.heartbeats[-1].roots_confirmed is True)
            assert (await confirm(one, genuine, 2))["outcome"] == "already_confirmed"
        async with one.agent():
            assert (await one.status())["roots"] == {
                "trusted_by": "first use", "confirmed": True, "root_key_ids": genuine, "root_threshold": 2,
            }  # fmt: skip
            await one.settled()
            assert (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"]


async def test_an_attackers_first_answer_is_found_out_by_comparing(tmp_path, mock_clock):
    """threats D-19: the operator has asked for first use, and an attacker answered. What it signs begins nothing here,
    and the genuine root keys are not those that it holds; enrolled anew with a token that names them, it is whole.
    """
    genuine = [key(f"root-{number}").key_id for number in (1, 2, 3)]
    named = {f"other-{number}": Trusted(key(f"other-{number}"), purpose=ROOT) for number in (1, 2, 3)}
    (tmp_path / "attackers").mkdir()
    async with lab(
        tmp_path / "attackers", mock_clock, cluster=Cluster(trusted=named | CONFIG_KEY), text=FIRST_USE
    ) as one:
        put_token(one.folder / "join.token", BARE_TOKEN)
        async with one.agent():
            await one.settled()
            for action in ("open_route", "start_service", "resolve_secret", "add_peer", "open_session"):
                assert (await one.may(action, scope=ROUTES))["reason"] == "roots_unconfirmed"
            before = one.node.store.enrolment
            assert await confirm(one, genuine, 2) == "other_roots"
            assert one.node.store.enrolment == before and not before.confirmed
    (tmp_path / "genuine").mkdir()
    async with lab(tmp_path / "genuine", mock_clock) as one, one.agent():
        await one.settled()
        assert set(one.node.store.enrolment.root_keys) == set(genuine)
        assert (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"]


async def unconfirmed_in_metrics(one):
    client = HttpClient(UnixConnector())
    try:
        answer = await client.fetch(one.settings.local.socket_path, Call("GET", "/metrics"))
    finally:
        await client.aclose()
    (line,) = (line for line in answer.body.decode().splitlines() if line.startswith("holdfast_roots_unconfirmed "))
    return line.split()[1]


async def test_a_grant_without_a_bundle_is_none(one, mock_clock):
    """rules J15, J10"""
    grant_with(one)
    async with one.agent():
        await refused(one)


async def test_a_grant_of_another_cluster_is_none(one, mock_clock):
    """rules J15, J4"""
    grant_with(one, Cluster(cluster_id="elsewhere").first_bundle.to_bytes())
    async with one.agent():
        await refused(one)
        assert one.node.store.enrolment.cluster_id == CLUSTER_ID


async def test_a_grant_that_is_spoilt_is_none(one, mock_clock):
    """rules J15, P6"""
    data = one.cluster.first_bundle.to_bytes()
    grant_with(one, data[:-3], b"", b"\x94nonsense")
    async with one.agent():
        await refused(one)


async def test_pinned_roots_refuse_another_authoritys_bundle(tmp_path, mock_clock):
    """rules L16; format.md 8, D-19: the configuration's roots come before the first bundle's own"""
    pinned = key("root-of-another-cluster").key_id
    async with lab(tmp_path, mock_clock, text=f'[trust]\nroot_key_ids = ["{pinned}"]\n') as one:
        async with one.agent():
            await one.until(lambda: one.node.counters.of("joins_failed") > 1)
            assert one.node.store.enrolment is None
            assert one.state in ("unenrolled", "joining")


async def test_pinned_roots_that_are_right(tmp_path, mock_clock):
    """format.md 8"""
    ids = ", ".join(f'"{key(name).key_id}"' for name in ("root-1", "root-2"))
    async with lab(tmp_path, mock_clock, text=f"[trust]\nroot_key_ids = [{ids}]\nroot_threshold = 2\n") as one:
        async with one.agent():
            await one.settled()
            assert one.node.store.enrolment.trusted_by == "configuration"
            assert one.node.store.enrolment.confirmed


async def test_a_crash_after_the_roots_were_pinned_repeats_safely(one, mock_clock):
    """rules A3, J12: the enrolment is there, the bundle is not; a member asks again, and its roots stay"""
    async with one.agent():
        await one.until(lambda: one.node.store.enrolment is not None)
        enrolled = one.node.store.enrolment
    for name in ("store", "floors"):
        for path in (one.folder / "state" / "clusters" / CLUSTER_ID / name).iterdir():
            path.unlink()
    async with one.agent():
        await one.settled()
        assert one.node.store.enrolment == enrolled
        assert one.server.joins == 2


async def test_between_its_join_and_its_first_head_a_node_waits(one, mock_clock):
    """rules A3, A4, A8: no head has expired, so no policy is wanted for that; nothing new is authorised either"""
    one.server.hang = "GET /v1/head"
    async with one.agent():
        await one.until(lambda: one.node.membership.is_member)
        assert (one.state, one.cause) == ("waiting", "no_head")
        assert (await one.may("start_service"))["reason"] == "no_head"
        one.server.hang = ""
        await one.settled()
        told = [event.detail for event in one.node.store.journal.events(after=0) if event.event == "state_changed"]
        assert not [each for each in told if "fenced" in each], told


async def test_a_lost_answer_is_asked_for_again(one, mock_clock):
    """rules J12: admitted there, nothing known here; the same certificate comes back"""
    one.server.spoil = lambda path, data: b"" if path == "/v1/join" else data
    async with one.agent():
        await one.until(lambda: one.server.joins >= 1 and one.node.counters.of("joins_failed") > 0)
        one.server.spoil = lambda _, data: data
        await one.settled()
        assert len(one.server.pins.of_node("node-a")) == 1


async def test_every_source_hangs_and_the_node_is_ready(for_hours, mock_clock):
    """rules P2, A12: local callers are answered meanwhile"""
    one = for_hours
    one.server.down = True
    async with one.agent():
        await trio.sleep(HOUR)
        assert (await one.status())["state"] == "joining"
        assert await one.get("probe", "liveness") == {"alive": True}
        assert one.node.counters.of("task_faults") == 0


# ---- why not, and what happens then


def pause_s(one):
    """Until the next attempt; 0 before the first has failed."""
    failure = one.node.membership.failure
    return failure.again_at - failure.at if failure is not None else 0


async def test_a_chain_that_is_not_the_configured_one_is_said(one, mock_clock):
    """rules K15, threats J14: no byte of the token leaves; the reason is in the status, with the next try"""
    right = one.server.ca_file.read_bytes()
    one.server.ca_file.write_bytes(make_authority("another CA", time.time()).certificate_pem)
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        status = await one.status()
        assert (status["state"], status["join"]["code"]) == ("joining", "unknown_ca")
        assert unix_seconds(status["join"]["again_at"]) > unix_seconds(status["join"]["at"])
        assert one.server.requests == []
        one.server.ca_file.write_bytes(right)
        await one.settled()
        assert (await one.status())["join"] is None


async def test_a_missing_ca_file_is_said(one, mock_clock):
    """rules K15"""
    one.server.ca_file.rename(one.folder / "elsewhere")
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        join = (await one.status())["join"]
        assert (join["code"], join["refused"]) == ("unusable_file", True)
        assert str(one.server.ca_file) in join["detail"]
        assert one.node.counters.of("task_faults") == 0
        (one.folder / "elsewhere").rename(one.server.ca_file)
        await one.settled()


async def test_a_coordinator_that_is_not_there_is_said(one, mock_clock):
    """rules P2"""
    one.server.down = True
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        status = await one.status()
        assert (status["state"], status["cause"]) == ("joining", "joining")
        assert (status["join"]["code"], status["join"]["refused"]) == ("unavailable", False)


async def test_a_new_token_is_tried_at_once(one, mock_clock):
    """rules A3, K14: not only after the back-off; and the refusal is gone from the status"""
    file = one.folder / "join.token"
    put_token(file, REFUSED_TOKEN)
    async with one.agent():
        await one.until(lambda: pause_s(one) > 8)
        assert (one.state, one.cause) == ("unenrolled", "bad_token")
        began = trio.current_time()
        put_token(file)
        await one.settled()
        assert elapsed.since(began) < 5
        assert (await one.status())["join"] is None


async def test_a_token_file_that_others_can_read_is_refused(one, mock_clock):
    """threats J12, D-61: said, not used; a tighter one is taken at once"""
    file = one.folder / "join.token"
    file.chmod(0o644)
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert (one.state, one.cause) == ("unenrolled", "bad_token_file")
        assert one.server.requests == []
        file.chmod(0o600)
        await one.settled()


async def test_a_refused_token_makes_room_for_another(one, mock_clock, monkeypatch):
    """rules K14: of several places the first whose token was not refused yet"""
    put_token(one.folder / "first", REFUSED_TOKEN)
    monkeypatch.setattr(AgentSettings, "token_files", lambda _: (one.folder / "first", one.folder / "join.token"))
    async with one.agent():
        await one.settled()
        assert one.node.counters.of("joins_failed") == 1


async def test_a_hang_up_is_a_reason_to_try(one, mock_clock):
    """rules P14"""
    one.server.down = True
    async with one.agent():
        await one.until(lambda: pause_s(one) > 8)
        began = trio.current_time()
        one.server.down = False
        os.kill(os.getpid(), signal.SIGHUP)
        await one.settled()
        assert elapsed.since(began) < 5


async def test_a_node_joins_with_the_key_that_systemd_gave(one, mock_clock, monkeypatch):
    """rules L40, K14: key and token are credentials; neither is kept below the state directory"""
    given = one.folder / "credentials"
    given.mkdir()
    key_pem = make_identity("anybody", time.time()).key_pem
    (given / "holdfast.node-key").write_bytes(key_pem)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    async with one.agent():
        await one.settled()
        (pin,) = one.server.pins.of_node("node-a")
        assert is_proven(pin.der, b"", prove(key_pem, b""))
    assert not any(b"PRIVATE KEY" in data for data in kept_by(one))


async def test_a_lost_key_is_a_node_outside(one, mock_clock):
    """rules A2, X8: what it holds authorises nothing; a new key needs the operator, and nothing else is lost"""
    async with one.agent():
        await one.settled()
        enrolled, (lost,) = one.node.store.enrolment, one.server.pins.of_node("node-a")
        one.node.store.paths.identity_file.unlink()
    one.server.refuse = "identity_conflict"
    async with one.agent():
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert (one.state, one.cause) == ("unenrolled", "identity_conflict")
        assert not (await one.may("continue_services", scope=ROUTES))["allowed"]
        assert one.version(ROUTES) == 1
        assert one.node.counters.of("task_faults") == 0
    async with one.agent():  # a key that nobody has admitted makes no member
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert one.state == "unenrolled"
        one.server.refuse = ""
        await one.settled()
        assert one.node.store.enrolment == enrolled
        assert any(pin.der != lost.der for pin in one.server.pins.of_node("node-a"))


async def test_a_member_without_its_credential_says_so(one, mock_clock, monkeypatch):
    """rules L40, A14, A15: it serves on from its store, speaks to nobody, and goes on once the key is there again"""
    given = one.folder / "credentials"
    given.mkdir()
    (given / "holdfast.node-key").write_bytes(make_identity("anybody", time.time()).key_pem)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    async with one.agent():
        await one.settled()
    one.server.requests.clear()
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    async with one.agent():
        await one.until(lambda: one.node.membership.failure is not None)
        status = await one.status()
        assert (status["state"], status["join"]["code"]) == ("active", "bad_identity")
        assert "was not given it" in status["join"]["detail"]
        await trio.sleep(300)
        assert one.server.requests == []
        assert one.node.counters.of("task_faults") == 0
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(given))
    async with one.agent():
        await one.until(lambda: one.node.check_in.confirmed)
        assert (await one.status())["join"] is None


async def test_a_member_whose_ca_file_is_gone_says_so(one, mock_clock):
    """rules A14, P1: an error of that source, with its back-off; put back, it goes on by itself"""
    async with one.agent():
        await one.settled()
    one.server.ca_file.rename(one.folder / "elsewhere")
    async with one.agent():
        await trio.sleep(600)
        (source,) = (await one.status())["sources"]
        assert f"{one.server.ca_file} and" in source["error"]
        assert "No such file" in source["error"]
        assert one.node.counters.of("task_faults") == 0
        (one.folder / "elsewhere").rename(one.server.ca_file)
        await one.until(lambda: one.node.check_in.confirmed)
