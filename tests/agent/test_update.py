"""The update path beyond the straight line: documents by hand, long downloads, what comes meanwhile."""

from dataclasses import replace

import pytest
import trio

from holdfast.node.status_screen import problems_of
from snapshot import canonical
from tests.fakes.cluster import HOUR
from tests.journeys.lab import lab
from wire.client import Call, ClientError, HttpClient, UnixConnector
from wire.local.node_status import NodeStatus
from wire.request import Response

ROUTES, QOS = "route_policy", "qos_policy"


async def handed_in(one, document):
    client = HttpClient(UnixConnector())
    try:
        call = Call("POST", "/v1/import", body=document.to_bytes())
        answer = await client.fetch(one.settings.local.socket_path, call)
    finally:
        await client.aclose()
    return canonical.loads(answer.body)


async def test_documents_from_another_medium(tmp_path, mock_clock):
    """rules S60, S86, S3, S53, P22: the network is gone, and files come by hand, through the same verification"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            listed = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            stray = one.cluster.snapshot({"qos": {}}, QOS, **one.server.times())
            one.server.down = True
            with pytest.raises(ClientError, match="not_listed"):
                await handed_in(one, stray)
            await one.until(lambda: one.state == "degraded")
            found = await handed_in(one, listed)
            assert found == {
                "outcome": "activated",
                "scope": ROUTES,
                "authority_epoch": 1,
                "config_version": 2,
            }
            assert one.version(ROUTES) == 2
            assert (await handed_in(one, listed))["outcome"] == "already_applied"
            with pytest.raises(ClientError, match="422"):
                await handed_in(one, one.cluster.snapshot({"x": {"password": "p"}}, **one.server.times()))
            assert one.rejected(ROUTES) == "raw_secret"
            now = int(one.clock.true)
            times = {"issued_at": now, "valid_from": now, "refresh_after": now + 900, "expires_at": now + 1800}
            assert (await handed_in(one, one.cluster.head(**times)))["outcome"] == "activated"
            assert one.node.gate_facts().head_is_fresh(one.node.now())


async def test_an_emergency_bundle_comes_as_a_file(tmp_path, mock_clock):
    """rules S60: verified as any other"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            one.server.down = True
            one.cluster.trust("config-1", status="revoked")
            bundle = one.cluster.trust_bundle(**one.server.times())
            assert (await handed_in(one, bundle))["outcome"] == "activated"
            assert one.node.holdings.scopes[ROUTES].signer_revoked


async def test_what_is_no_document_is_refused(tmp_path, mock_clock):
    """rules P6"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            client = HttpClient(UnixConnector())
            for body in (b"", b"\x94", b"{}", b"\x00" * 5000):
                with pytest.raises(ClientError, match="422"):
                    await client.fetch(one.settings.local.socket_path, Call("POST", "/v1/import", body=body))
            await client.aclose()
            assert one.state == "active"


async def test_a_head_is_taken_while_a_download_hangs(tmp_path, mock_clock):
    """rules P2: one slow document keeps nobody in the dark"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            one.server.snapshot({"routes": {"slow": {}}}, ROUTES)
            one.server.hang = f"/v1/documents/{ROUTES}-2"
            one.server.announce()
            await one.until(lambda: f"GET {one.server.hang}" in one.server.requests)
            newer = one.server.announce()
            await one.until(lambda: one.node.holdings.held_head == newer.envelope.version, within_s=5)
            one.server.hang = ""
            await one.until_active(ROUTES, 2)


async def test_a_missing_document_is_asked_for_less_and_less(tmp_path, mock_clock):
    """threats V11; rules X27: and it arrives as soon as it is there"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            made = one.server.snapshot({"routes": {"late": {}}}, ROUTES)
            held_back = one.server.documents.pop(made.envelope.snapshot_id)
            one.server.announce()
            await trio.sleep(HOUR / 4)
            asked = one.server.requests.count(f"GET /v1/documents/{made.envelope.snapshot_id}")
            assert 3 <= asked <= 40, "chance is in the rests; without their growth it would be 200"
            one.server.documents[made.envelope.snapshot_id] = held_back
            await one.until_active(ROUTES, 2)


async def test_the_others_are_judged_by_what_the_same_head_establishes(tmp_path, mock_clock):
    """format.md 9: roles come with node_runtime, and what needs them with it, in one activation"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            one.server.snapshot({"node": {}}, "node_runtime", roles=["core_mesh", "egress_service"])
            one.server.snapshot({"services": {"web": {}}}, "service_assignment/web")
            one.server.announce()
            await one.until_active("service_assignment/web", 1)
            scopes = one.node.holdings.view.scopes
            assert scopes["service_assignment/web"].record.generation == scopes["node_runtime"].record.generation
            assert one.node.holdings.roles == {"core_mesh", "egress_service"}


async def test_a_revoked_role_takes_its_scopes_from_new_use(tmp_path, mock_clock):
    """rules S61: by a head; what only that role lets us hold authorises nothing, and nothing new of it is taken"""
    from snapshot.manifest import Revocations

    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            gone = Revocations(version=1, role_assignments=frozenset({"node-a/core_mesh"}))
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            one.server.announce(revocations=gone)
            await one.until(lambda: one.rejected(ROUTES) == "role_not_allowed")
            assert (await one.may("open_route", scope=ROUTES, resource="north"))["reason"] == "revoked"
            assert one.version(ROUTES) == 1


async def test_a_full_store_is_said_everywhere_and_the_next_that_fits_goes_in(tmp_path, mock_clock):
    """rules L35, K30: in the status, on its screen and in the reports, as long as it is so; what is active stays"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent(limits=replace(one.settings.limits, map_bytes=1 << 20)):
            await one.settled()
            much = {f"part-{number}": {"prose": [str(number) * 60_000] * 10} for number in range(4)}
            one.server.snapshot(much, ROUTES)
            one.server.announce()
            await one.server.wait_heartbeat(lambda report: report.counters.get("store_full") == 1)
            status = await one.status()
            assert status["store"]["fault"] == "store_full"
            assert any(
                "free space" in problem for problem in problems_of(NodeStatus.from_value(status), one.clock.true)
            )
            assert (one.version(ROUTES), one.mark(ROUTES), one.state) == (1, (1, 1), "active")
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            one.server.announce()
            await one.until_active(ROUTES, 3)
            await one.server.wait_heartbeat(lambda report: "store_full" not in report.counters)
            assert (await one.status())["store"]["fault"] == ""


async def test_a_file_for_a_full_store_is_answered_with_its_code_and_a_bundle_goes_in(tmp_path, mock_clock):
    """rules L35, S60: nothing changes but the bundle, and what fits goes in afterwards"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent(limits=replace(one.settings.limits, map_bytes=1 << 20)):
            await one.settled()
            one.server.down = True
            await one.until(lambda: one.state == "degraded")
            much = {f"part-{number}": {"prose": [str(number) * 60_000] * 10} for number in range(4)}
            with pytest.raises(ClientError, match="store_full") as caught:
                await handed_in(one, one.server.snapshot(much, ROUTES))
            assert caught.value.status == 503
            assert one.version(ROUTES) == 1
            assert (await handed_in(one, one.cluster.trust_bundle()))["outcome"] == "activated"
            assert one.node.holdings.bundle.version == 2
            small = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            assert (await handed_in(one, small))["outcome"] == "activated"


async def test_one_resync_at_a_time(tmp_path, mock_clock):
    """rules K46: what is handed in waits for the round that runs, and then finds done what it would have done"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            second = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            before, answers = one.node.counters.of("activations"), []

            async def hand_in():
                answers.append(await handed_in(one, second))

            one.server.hang = f"/v1/documents/{second.envelope.snapshot_id}"
            one.server.announce()
            await one.until(lambda: f"GET {one.server.hang}" in one.server.requests)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hand_in)
                await trio.sleep(3)  # of the clock that a test moves: everything that can go on has gone on
                assert (answers, one.version(ROUTES)) == ([], 1)
                one.server.hang = ""
            assert [each["outcome"] for each in answers] == ["already_applied"]
            assert one.version(ROUTES) == 2
            assert one.node.counters.of("activations") == before + 2, "the head, and the scope once"


async def test_what_waited_for_its_time_is_not_run_where_the_head_lists_another_by_then(tmp_path, mock_clock):
    """rules X26, S3, S86: it was taken back before its time, and what is listed in its place cannot be had yet"""
    async with lab(tmp_path, mock_clock) as one:
        async with one.agent():
            await one.settled()
            one.server.snapshot({"routes": {"early": {}}}, ROUTES, valid_from=int(one.clock.true) + 60)
            one.server.announce()
            await one.until(lambda: ROUTES in one.node.store.waiting())
            one.server.snapshot({"routes": {"back": {}}}, ROUTES)
            one.server.hang = f"/v1/documents/{ROUTES}-3"
            head = one.server.announce()
            await one.until(lambda: one.node.holdings.held_head == head.envelope.version)
            one.server.instead = lambda _path, _data: Response(404)
            one.server.hang = ""
            await trio.sleep(90)
            assert one.version(ROUTES) == 1
            assert one.node.store.waiting() == {}
            one.server.instead = None
            await one.until_active(ROUTES, 3)
