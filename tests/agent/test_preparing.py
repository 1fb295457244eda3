"""What a head says is coming: brought, judged, voted on, and never active before it is listed to be run."""

import errno
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from agent.base.byte_source import Chunks
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.manifest import Revocations, ScopeVersion
from snapshot.reasons import Rejected
from store.base.disk import Disk
from store.base.environment import LmdbTransaction
from tests.agent.bench import Bench, bench
from tests.fakes.cluster import DAY, HOUR, key, listing
from tests.fakes.config_document import FileContent, config_sections
from tests.fakes.damage import flipped, with_signature
from tests.journeys.lab import POLICY, ROUTES, lab, settings_for
from wire.request import HttpError

POLICY_SCOPE, QOS, RUNTIME = "degraded_mode_policy", "qos_policy", "node_runtime"
GOOD, BAD = {"routes": {"south": {}}}, {"routes": {"forbidden": {}}}

LOGGED = """
[[service]]
name = "web"
scopes = ["route_policy", "degraded_mode_policy"]
validate = ["/bin/sh", "-c", '''
cat route_policy/routes.json >>{log}; echo >>{log}
! grep -rqs forbidden . && ! {{ grep -q south route_policy/routes.json && grep -q _s.:61 degraded_mode_policy/*; }}
''']
validate_timeout_s = 50
"""
"""It writes down what it is shown; two things that would do alone do not do together."""


@pytest.fixture
def mock_clock():
    """It runs: a validator is a process of its own, and takes its time."""
    return MockClock(rate=1.0)


class Prepared:
    """A node with all its parts, over real TLS, and none of its tasks; `asked`: what the validator was shown."""

    def __init__(self, made: Bench, folder) -> None:
        self.made, self.server, self.node = made, made.server, made.node
        self.preparation = made.outside.update.preparation
        self.log = folder / "validated"

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    async def hear(self, **members) -> None:
        """The next head, and what follows from it for what is coming."""
        self.server.announce(**members)
        await self.made.outside.refresh.ask(self.made.coordinator)
        await self.preparation.look()

    async def run(self, **members) -> None:
        """The next head, and what follows from it for what is to be run."""
        self.server.announce(**members)
        await self.made.outside.refresh.ask(self.made.coordinator)
        await self.made.outside.update.bring_up()

    def votes(self) -> dict[str, tuple[object, ...]]:
        """By scope: the verdict, and why."""
        return {
            vote.scope: (vote.verdict, *((vote.step, str(vote.reason)) if vote.reason else ()))
            for vote in self.preparation.votes()
        }

    def detail(self, scope=ROUTES) -> str:
        return {vote.scope: vote.detail for vote in self.preparation.votes()}[scope]

    def held(self) -> object:
        """All that must not move."""
        kept, floors = self.node.holdings.kept, self.node.store.floors
        active = {scope: held.envelope_hash for scope, held in kept.active.items() if scope != "head"}
        marks = {scope: mark for scope, mark in kept.marks.items() if scope != "head"}
        return active, marks, {scope: floor for scope, floor in floors.scopes.items() if scope != "head"}

    def fetched(self) -> int:
        return sum("/v1/documents/" in request or "/v1/increments/" in request for request in self.server.requests)

    def slots(self) -> set[str]:
        return set(self.node.store.candidates().by_scope)

    def alarms(self) -> object:
        """What shows that something to be run was refused."""
        gaps = self.node.gaps
        return self.node.store.rejections.ring(), gaps.scopes, gaps.refresh_required, str(self.node.store_fault)


@pytest.fixture
async def made(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=LOGGED.format(log=tmp_path / "validated")) as one:
        async with bench(one) as found:
            await found.settle()
            prepared = Prepared(found, tmp_path)
            prepared.log.unlink(missing_ok=True)
            yield prepared


async def test_what_is_coming_is_judged_and_not_run(made, mock_clock):
    before, generation = made.held(), made.node.store.watch.generation
    document = made.server.propose(GOOD)
    await made.hear()
    await made.made.outside.update.bring_up()
    (vote,) = made.preparation.votes()
    assert (vote.scope, vote.snapshot_id, vote.content_hash) == (
        ROUTES, document.envelope.snapshot_id, document.envelope.state_hash,
    )  # fmt: skip
    assert (vote.verdict, vote.step, vote.reason, vote.detail) == ("accepted", None, "", "")
    assert (made.held(), made.node.store.watch.generation) == (before, generation)
    assert (made.slots(), made.alarms()) == ({ROUTES}, ([], frozenset(), frozenset(), ""))
    assert made.asked == ['{"south":{}}']


async def test_a_release_needs_no_download_and_no_second_judgement(made, mock_clock):
    document = made.server.propose(GOOD)
    await made.hear()
    fetched = made.fetched()
    made.server.release(ROUTES)
    await made.run()
    active = made.node.holdings.kept.active[ROUTES]
    assert active.envelope.snapshot_id == document.envelope.snapshot_id
    assert (made.fetched(), len(made.asked), made.slots()) == (fetched, 1, set())
    await made.preparation.look()
    assert made.preparation.votes() == ()
    assert made.made.outside.update.activating.origins[ROUTES].way == "coordinator"


async def test_what_a_release_reads_of_the_store_grows_with_its_scopes_alone(made, mock_clock, monkeypatch):
    """each is looked up by its name: with all of them for each, forty would be read sixteen hundred times"""
    rows, get = [], LmdbTransaction.get
    monkeypatch.setattr(LmdbTransaction, "get", lambda self, table, key: (rows.append(table), get(self, table, key))[1])
    a_scope, files = [], config_sections({"a": FileContent(b"a")})
    for wide in (10, 40):
        scopes = [f"config/of-{wide}-{number}" for number in range(wide)]
        for scope in scopes:
            made.server.propose(files.sections, scope, raw=files.raw, subject_node_id="*")
        await made.hear()
        assert set(made.votes().values()) == {("accepted",)}
        made.server.release(*scopes)
        made.server.announce()
        await made.made.outside.refresh.ask(made.made.coordinator)
        fetched = made.fetched()
        rows.clear()
        await made.made.outside.update.bring_up()
        assert set(scopes) <= made.node.holdings.kept.active.keys()
        assert made.fetched() == fetched
        a_scope.append(rows.count("pending") / wide)
    assert a_scope[1] <= a_scope[0]


async def test_a_release_with_another_state_beside_it_is_judged_anew(made, mock_clock):
    made.server.propose(GOOD)
    await made.hear()
    made.server.snapshot({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE)
    made.server.release(ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 2
    assert len(made.asked) == 2


async def test_an_increment_comes_and_is_released_as_any_other(made, mock_clock):
    runs = made.server.cluster.published[ROUTES], made.server.cluster.states[ROUTES]
    made.server.publish_increment(ROUTES, sets={"routes": {"south": {}}})
    coming = made.server.cluster.published[ROUTES], made.server.cluster.states[ROUTES]
    made.server.cluster.published[ROUTES], made.server.cluster.states[ROUTES] = runs
    made.server.coming[ROUTES] = listing(coming[0])
    made.server.requests.clear()
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}
    assert [each for each in made.server.requests if "documents" in each] == []
    made.server.cluster.published[ROUTES] = coming[0]
    made.server.coming.clear()
    fetched = made.fetched()
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 2
    assert made.fetched() == fetched


async def test_a_service_says_no_once(made, mock_clock):
    """It is not asked again while nothing is another: not at the next head, not at any other news, not by a round"""
    before = made.held()
    made.server.propose(BAD)
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 12, "validator_refused")}
    assert made.detail().startswith("web: exit 1")
    for _ in range(3):
        await made.hear()
        made.node.tell()
        await made.preparation.look()
        await made.made.outside.update.bring_up()
    assert len(made.asked) == 1
    assert (made.held(), made.alarms()) == (before, ([], frozenset(), frozenset(), ""))
    assert made.slots() == {ROUTES}, "it is judged there again when something else is another"
    made.server.propose(GOOD)
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}


async def test_a_service_that_does_not_end_is_a_no_and_asked_again_seldom(tmp_path, mock_clock):
    hangs = LOGGED.format(log=tmp_path / "validated").replace("! grep -r", "sleep 60; ! grep -r").replace("= 50", "= 1")
    async with lab(tmp_path, mock_clock) as one:
        async with bench(one) as first:
            await first.settle()
        async with bench(replace(one, settings=settings_for(tmp_path, one.server, hangs))) as found:
            made = Prepared(found, tmp_path)
            made.server.propose(GOOD)
            await made.hear()
            assert made.votes() == {ROUTES: ("refused", 12, "validator_refused")}
            assert "did not end in time" in made.detail()
            await made.hear()
            assert len(made.asked) == 1
            assert 0 < await made.preparation.look() <= 600
            mock_clock.jump(700)
            await made.preparation.look()
            assert len(made.asked) == 2


@pytest.mark.parametrize(("changes", "asked"), [(("c-1", "c-1"), 1), (("c-1", "c-2"), 3)])
async def test_all_that_is_coming_is_shown_together(made, mock_clock, changes, asked):
    """a service that reads two scopes could not live with both; of two changes neither is to blame alone"""
    made.server.propose(GOOD, listed={"change": changes[0]})
    made.server.propose({"policy": POLICY | {"route_ttl_s": 61}}, POLICY_SCOPE, listed={"change": changes[1]})
    await made.hear()
    assert made.votes() == dict.fromkeys((ROUTES, POLICY_SCOPE), ("refused", 12, "validator_refused"))
    await made.hear()
    assert len(made.asked) == asked


async def test_of_two_changes_the_one_that_is_refused_alone_is_blamed(made, mock_clock):
    made.server.propose(BAD, listed={"change": "c-1"})
    made.server.propose({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE, listed={"change": "c-2"})
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 12, "validator_refused"), POLICY_SCOPE: ("accepted",)}
    await made.hear()
    await made.hear()
    assert len(made.asked) == 3, "together, and each alone, which is what is left of them"


async def test_half_a_change_is_not_voted_on(made, mock_clock):
    """one of its documents is nowhere yet: who has the other half could say anything of it"""
    made.server.propose(GOOD)
    policy = made.server.propose({"policy": POLICY | {"route_ttl_s": 60}}, POLICY_SCOPE)
    document = made.server.documents.pop(policy.envelope.snapshot_id)
    made.server.propose({"qos": {}}, QOS, listed={"change": "c-2"})
    await made.hear()
    assert made.votes() == {QOS: ("accepted",)}
    assert made.asked == []
    made.server.documents[policy.envelope.snapshot_id] = document
    mock_clock.jump(20)
    await made.preparation.look()
    assert made.votes() == dict.fromkeys((ROUTES, POLICY_SCOPE, QOS), ("accepted",))
    assert len(made.asked) == 1


async def test_it_is_judged_by_the_roles_that_come_with_it(made, mock_clock):
    """format.md 9: and without them, where a service keeps those out"""
    made.server.propose({"node": {"site": "x"}}, RUNTIME, roles=["core_mesh", "edge_cache"])
    made.server.propose({"qos": {}}, QOS, roles=["edge_cache"])
    await made.hear()
    assert made.votes() == {RUNTIME: ("accepted",), QOS: ("accepted",)}
    assert made.node.holdings.roles == {"core_mesh"}
    del made.server.coming[RUNTIME]
    await made.hear()
    assert made.votes() == {QOS: ("refused", 10, "role_not_allowed")}


# ---- what is wrong with a candidate


def spoilt_signature(server) -> None:
    document = server.propose(GOOD)
    spoilt = with_signature(document, key("config-1"), flipped(document.signatures[0][1]))
    server.documents[document.envelope.snapshot_id] = spoilt.to_bytes()


def by_a_stranger(server) -> None:
    server.cluster.trust("stranger")
    server.propose(GOOD, keys=[key("stranger")])


def at(server, **seconds: int) -> None:
    """With these times, counted from now."""
    now = int(server.now())
    server.propose(GOOD, **{name: now + after for name, after in seconds.items()})


def with_other_content(server) -> None:
    server.propose(GOOD)
    server.coming[ROUTES] = replace(server.coming[ROUTES], content_hash="sha256:" + "1" * 64)


AHEAD = {"valid_from": 30 * DAY, "refresh_after": 30 * DAY, "expires_at": 40 * DAY}
PAST = {"issued_at": -100, "valid_from": -100, "refresh_after": -50, "expires_at": -10}
WRONG = {
    "bad signature": (spoilt_signature, 5, "bad_signature"),
    "another node's": (lambda server: server.propose(GOOD, subject_node_id="node-b"), 3, "wrong_node"),
    "another cluster's": (lambda server: server.propose(GOOD, cluster_id="elsewhere"), 2, "wrong_cluster"),
    "a secret": (lambda server: server.propose({"routes": {"s": {"password": "hunter2-hunter2"}}}), 12, "raw_secret"),
    "for others": (lambda server: server.propose(GOOD, organization_ids=["x"]), 10, "organization_not_allowed"),
    "an unknown key": (by_a_stranger, 4, "unknown_key"),
    "not yet": (lambda server: at(server, valid_from=HOUR, refresh_after=DAY), 7, "not_yet_valid"),
    "far ahead": (lambda server: at(server, **AHEAD), 7, "valid_from_too_far"),
    "expired": (lambda server: at(server, **PAST), 7, "expired"),
    "other content than is listed": (with_other_content, 9, "not_listed"),
}
"""What is done, and the step and reason of the vote."""


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_with_it_is_said_in_the_vote_and_harms_nothing(made, mock_clock, what):
    """threats D-44, D-48: nothing else shows it, and the next good one goes through"""
    before, generation = made.held(), made.node.store.watch.generation
    go_wrong, step, reason = WRONG[what]
    go_wrong(made.server)
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", step, reason)}
    assert (made.held(), made.node.store.watch.generation, made.asked) == (before, generation, [])
    assert made.alarms() == ([], frozenset(), frozenset(), "")
    assert made.node.standing().state == "active"
    fetched = made.fetched()
    for _ in range(3):
        await made.hear()
    assert made.fetched() == fetched, "it rests"
    made.server.propose(GOOD)
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}
    made.server.release(ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].content_hash != dict(before[0]).get(ROUTES)
    assert made.node.holdings.kept.marks[ROUTES].config_version == made.server.cluster.versions[ROUTES]


async def test_a_listing_that_cannot_be_is_refused_without_a_request(made, mock_clock):
    """the version that runs, with other content"""
    made.server.propose(GOOD)
    made.server.coming[ROUTES] = replace(made.server.coming[ROUTES], config_version=1)
    before, fetched = made.held(), made.fetched()
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 9, "version_conflict")}
    assert (made.held(), made.fetched(), made.slots()) == (before, fetched, set())


async def test_something_newer_runs_already(made, mock_clock):
    made.server.propose(GOOD)
    await made.hear()
    made.server.snapshot({"routes": {"west": {}}}, ROUTES)
    await made.run()
    await made.preparation.look()
    assert made.votes() == {ROUTES: ("refused", 9, "rollback")}
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 3
    assert made.slots() == set()
    again = made.server.propose(GOOD)
    await made.hear()
    assert (made.votes(), again.envelope.config_version) == ({ROUTES: ("accepted",)}, 4)


async def test_it_runs_already(made, mock_clock):
    """as after a release that another head has confirmed: there is nothing to bring, and nothing to ask"""
    made.server.coming[ROUTES] = listing(made.server.cluster.published[ROUTES])
    fetched = made.fetched()
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}
    assert (made.fetched(), made.asked) == (fetched, [])


async def test_listed_twice_with_other_content(made, mock_clock):
    """under one version to run and to come: what is to be run runs, the other is refused"""
    coming = made.server.propose(GOOD)
    made.server.cluster.versions[ROUTES] = 1
    runs = made.server.snapshot({"routes": {"west": {}}}, ROUTES, snapshot_id="other-2")
    assert coming.envelope.version == runs.envelope.version
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 9, "version_conflict")}
    await made.run()
    await made.preparation.look()
    assert made.votes() == {ROUTES: ("refused", 9, "version_conflict")}
    assert made.node.holdings.kept.active[ROUTES].content_hash == runs.envelope.state_hash


async def test_a_trust_bundle_and_what_nobody_knows_are_no_candidates(made, mock_clock):
    one = ScopeVersion(1, 9, "sha256:" + "3" * 64, "x-9")
    made.server.coming.update({TRUST_BUNDLE: one, "tomorrows_scope/a": one, "head": one})
    before, fetched = made.held(), made.fetched()
    await made.hear()
    assert set(made.votes().values()) == {("refused", 3, "unknown_scope")}
    assert (made.held(), made.fetched(), made.slots()) == (before, fetched, set())


async def test_a_thousand_candidates(made, mock_clock):
    """as many as a report has room for, and no slot of what is to be run"""
    scopes = [f"config/c{number:04}" for number in range(1025)]
    one = ScopeVersion(1, 1, "sha256:" + "4" * 64, "nowhere")
    made.server.coming.update({scope: replace(one, snapshot_id=f"nowhere-{scope[7:]}") for scope in scopes})
    before = made.held()
    await made.hear()
    assert (made.votes(), made.held(), made.slots()) == ({}, before, set())
    made.server.snapshot({"routes": {"west": {}}}, ROUTES)
    await made.run()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 2


async def test_where_there_is_no_place_to_lay_it_out_the_vote_says_so(made, mock_clock):
    """and not the time limit of whoever waits for it; once there is one it is asked again"""
    before, folder = made.held(), made.node.store.paths.temporary / "candidates"
    folder.rmdir()
    folder.touch()
    made.server.propose(GOOD)
    await made.hear()
    assert made.votes() == {ROUTES: ("refused", 12, "validator_refused")}
    assert made.detail().startswith("web: ") and "Not a directory" in made.detail()
    assert (made.held(), made.alarms(), made.asked) == (before, ([], frozenset(), frozenset(), ""), [])
    folder.unlink()
    folder.mkdir()
    mock_clock.jump(700)
    await made.preparation.look()
    assert (made.votes(), len(made.asked)) == ({ROUTES: ("accepted",)}, 1)


async def test_where_the_store_has_no_room_for_it_the_vote_says_so(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as one:
        limits = replace(one.settings.limits, map_bytes=1 << 20)
        async with bench(replace(one, settings=replace(one.settings, limits=limits))) as found:
            await found.settle()
            made = Prepared(found, tmp_path)
            before = made.held()
            made.server.propose({f"part-{number}": {"prose": [str(number) * 60_000] * 10} for number in range(4)})
            await made.hear()
            assert made.votes() == {ROUTES: ("refused", None, "too_large")}
            assert made.detail() == "this slot takes at most 262144 bytes"
            made.server.propose(GOOD)
            await made.hear()
            assert (made.votes(), made.held()) == ({ROUTES: ("accepted",)}, before)


# ---- without a download, whatever happens


async def test_after_a_restart_it_says_the_same_out_of_the_slot(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=LOGGED.format(log=tmp_path / "validated")) as one:
        async with bench(one) as found:
            await found.settle()
            made = Prepared(found, tmp_path)
            made.server.propose(BAD)
            made.server.propose({"qos": {}}, QOS)
            await made.hear()
            votes, before, fetched = made.preparation.votes(), made.held(), made.fetched()
            asked = made.asked
        async with bench(one) as found:
            again = Prepared(found, tmp_path)
            assert again.preparation.votes() == ()
            await again.preparation.look()
            assert again.preparation.votes() == votes
            assert (again.held(), again.fetched()) == (before, fetched)
            assert again.asked == [*asked, asked[-1]], "which is not kept: what it judged may be another service by now"


async def test_what_is_left_of_one_that_failed_takes_no_room_from_others(made, mock_clock, monkeypatch):
    """rules L35: on a full disk it could not be let go either; it goes before another one is asked for"""
    room, commit, commits = made.node.store.candidates().room, Disk.commit, []

    def full(self, transaction):
        commits.append(None)
        if len(commits) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        commit(self, transaction)

    made.server.propose({f"s{number}": ["x" * 1000] * 900 for number in range(6)}, QOS)
    with monkeypatch.context() as patched:
        made.server.announce()
        await made.made.outside.refresh.ask(made.made.coordinator)
        patched.setattr(Disk, "commit", full)
        await made.preparation.look()
    assert made.votes()[QOS] == ("refused", None, "store_full")
    assert made.node.store.candidates().room < room
    made.server.propose(GOOD)
    await made.hear()
    assert made.votes() == {QOS: ("refused", None, "store_full"), ROUTES: ("accepted",)}
    (slot,) = made.node.store.pending()
    assert slot.scope == ROUTES and made.node.store.candidates().room > room - 10_000


async def test_what_a_newer_head_drops_leaves_its_slot(made, mock_clock):
    made.server.propose(GOOD)
    made.server.propose({"qos": {}}, QOS)
    await made.hear()
    del made.server.coming[QOS]
    await made.hear()
    assert (made.slots(), set(made.votes())) == ({ROUTES}, {ROUTES})
    made.server.coming.clear()
    await made.hear()
    assert (made.slots(), made.votes()) == (set(), {})


async def test_a_revoked_node_keeps_none(made, mock_clock):
    """rules A9"""
    made.server.propose(GOOD)
    await made.hear()
    revoked = Revocations(1, node_ids=frozenset({made.node.settings.node.node_id}))
    await made.run(revocations=revoked)
    await made.preparation.look()
    assert (made.slots(), made.votes()) == (set(), {})


async def test_a_download_of_what_is_listed_no_more_is_given_up(made, mock_clock):
    document = made.server.propose(GOOD)
    made.server.hang = f"/v1/documents/{document.envelope.snapshot_id}"
    made.server.announce()
    await made.made.outside.refresh.ask(made.made.coordinator)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.preparation.look)
        while not made.preparation.intake._asking:  # noqa: ASYNC110 - the task beside it does
            await trio.sleep(0.01)
        made.server.coming.clear()
        made.server.announce()
        await made.made.outside.refresh.ask(made.made.coordinator)
    assert (made.votes(), made.slots()) == ({}, set())
    made.server.hang = ""
    made.server.propose(GOOD)
    await made.hear()
    assert made.votes() == {ROUTES: ("accepted",)}


# ---- without the coordinator


def head_of_now(server, **members):
    now = int(server.now())
    times = {"issued_at": now, "valid_from": now, "refresh_after": now + 900, "expires_at": now + 1800}
    return server.cluster.head(candidates=server.coming, **times, **members)


async def handed_in(made, document) -> dict[str, object]:
    return (await made.made.inside.front.take(Chunks(document.to_bytes()))).to_value()


async def test_by_a_stick_it_is_judged_and_not_run_and_released_by_the_next_head(made, mock_clock):
    """rules S60: head and documents come as files; the vote is there once a coordinator asks"""
    made.server.down = True
    before = made.held()
    document = made.server.propose(GOOD)
    with pytest.raises(HttpError, match="not list"):
        await handed_in(made, document)
    assert (await handed_in(made, head_of_now(made.server)))["outcome"] == "activated"
    await made.preparation.look()
    assert made.votes() == {}
    assert (await handed_in(made, document))["outcome"] == "candidate"
    await made.preparation.look()
    assert (made.votes(), made.held()) == ({ROUTES: ("accepted",)}, before)
    assert (await handed_in(made, document))["outcome"] == "candidate"
    await made.preparation.look()
    assert len(made.asked) == 1
    made.server.release(ROUTES)
    await handed_in(made, head_of_now(made.server))
    await made.made.outside.update.bring_up()
    assert made.node.holdings.kept.active[ROUTES].envelope.snapshot_id == document.envelope.snapshot_id
    assert len(made.asked) == 1


async def test_a_file_of_what_is_coming_is_never_run_however_old_the_head(made, mock_clock):
    """rules S3: with an expired head what is newer is taken from a file; what is to come is not"""
    document = made.server.propose(GOOD)
    await made.hear()
    mock_clock.jump(HOUR)
    assert not made.node.gate_facts().head_is_fresh(made.node.now())
    assert (await handed_in(made, document))["outcome"] == "candidate"
    await made.made.outside.update.bring_up()
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 1
    spoilt = made.server.cluster.forge(document, cluster_id="elsewhere")
    with pytest.raises(Rejected, match="wrong_cluster"):
        await handed_in(made, spoilt)
    assert made.alarms()[0] == []
    newer = made.server.snapshot({"routes": {"west": {}}}, ROUTES)
    assert (await handed_in(made, newer))["outcome"] == "activated"
