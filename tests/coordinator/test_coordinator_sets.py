"""Who the coordinators are, declared as one change that root keys sign (rules H0, H3, H24, H38, H39, H49)."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import history_check, schema
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import seed as seeds
from coordinator.keys import seed_share
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import replicas, seed_shares
from coordinator.publishing import published_state
from coordinator.trust import coordinator_set, request_builder, trust_import
from coordinator.trust.coordinator_set import CoordinatorSet
from snapshot import canonical
from tests.coordinator import histories
from tests.coordinator.candidates import contents
from tests.coordinator.owners import ALICE, BOB, BY_NAME
from tests.coordinator.sets import FIRST, NAMES, SECOND, THIRD, Coordinators

OTHER = "sha256:" + "ab" * 32
KEPT = ("audit", "coordinators", "objects", "pointers", "transitions", "trust_bundles", "cluster")


@pytest.fixture
def at(tmp_path: Path, database_url: str) -> Iterator[Coordinators]:
    made = Coordinators(tmp_path, database_url)
    yield made
    histories.check_digests(made.database)
    made.database.close()


def refused(at: Coordinators, call: Callable[[], object], code: Code) -> str:
    """For this, and nothing has changed."""
    before = contents(at.database, *KEPT)
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.code is code, caught.value
    assert contents(at.database, *KEPT) == before
    return caught.value.detail


def goes_on(at: Coordinators) -> None:
    """The next valid set is committed, and all of the history is as it was linked."""
    wanted = at.signed(at.draft(*at.manifest()[1]["coordinators"]))
    at.commit(wanted)
    assert at.manifest()[1]["mesh_key"] == wanted.mesh_key
    assert history_check.verify(at.database).faults == []
    assert [history_check.compare(at.database, name) for name in history_check.COMPARED] == [""] * len(
        history_check.COMPARED
    )


def test_what_was_signed_is_what_the_manifest_says(at: Coordinators) -> None:
    """One change: the bundle that lists the mesh key, the entries, and `latest`."""
    before = at.manifest()
    made = at.draft(FIRST, SECOND)
    assert made.changes()[:3] == [
        f"keeps the coordinator {FIRST}",
        f"keeps the coordinator {SECOND}",
        f"takes away the coordinator {THIRD}",
    ]
    signed = at.signed(made)
    at.commit(signed)
    digest, said = at.manifest()
    assert {name: value for name, value in said.items() if name != "created_at"} == signed.content
    assert (signed.follows, digest != before[0]) == (before[0], True)
    assert [replica.coordinator_id for replica in replicas.list_replicas(at.database)] == [FIRST, SECOND]
    with at.database.read() as transaction:
        assert made.mesh_key in published_state.latest_bundle(transaction)[1].keys
    goes_on(at)


def test_who_was_taken_away_is_refused_and_who_stays_is_not(at: Coordinators) -> None:
    pins = {replica.coordinator_id: replica.identity_sha256 for replica in replicas.list_replicas(at.database)}
    at.commit(at.signed(at.draft(FIRST, SECOND)))
    key = at.database.history.key
    for name, is_in in ((THIRD, False), (SECOND, True)):
        at.database.history = LinkedHistory(key, OwnEntry(name, pins[name]))
        if is_in:
            with at.database.change(actor=name, now=at.now) as transaction:
                transaction.audit("test", name)
        else:
            with pytest.raises(Refused) as caught, at.database.change(actor=name, now=at.now):
                pass
            assert caught.value.code is Code.NOT_IN_MANIFEST


def test_another_identity_is_known_from_then_on(at: Coordinators) -> None:
    made = at.draft(FIRST, THIRD, coord_2=OTHER)
    assert f"{SECOND} has the certificate {OTHER} instead of" in "\n".join(made.changes())
    at.commit(at.signed(made))
    assert replicas.identity_of(at.database, SECOND) == OTHER
    assert at.manifest()[1]["coordinators"][SECOND]["certificate_sha256"] == OTHER
    goes_on(at)


def test_of_two_that_were_made_at_once_one_is_committed(at: Coordinators) -> None:
    """rules H3, H38"""
    first, second = at.signed(at.draft(FIRST, SECOND)), at.signed(at.draft(FIRST, THIRD))
    at.commit(second)
    assert "is in place" in refused(at, lambda: at.commit(first), Code.CONCURRENT_UPDATE)
    refused(at, lambda: at.commit(second), Code.CONCURRENT_UPDATE)
    assert set(at.manifest()[1]["coordinators"]) == {FIRST, THIRD}
    goes_on(at)


def test_of_two_that_are_committed_at_once_one_is(at: Coordinators) -> None:
    """rules H38: also where both have looked before either has written; of several replicas over one database"""
    sets = [at.signed(at.draft(FIRST, SECOND)), at.signed(at.draft(FIRST, THIRD))]
    codes: list[Code | None] = []
    both = threading.Barrier(2)

    def commit(signed: CoordinatorSet) -> None:
        database = Database(at.database.url)
        database.history = at.database.history
        both.wait()
        try:
            at.commit(signed, database)
            codes.append(None)
        except Refused as error:
            codes.append(error.code)
        finally:
            database.close()

    threads = [threading.Thread(target=commit, args=(signed,)) for signed in sets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count(None) == 1
    assert set(codes) <= {None, Code.CONCURRENT_UPDATE, Code.CONFLICT}
    assert len(at.manifest()[1]["coordinators"]) == 2
    goes_on(at)


def test_a_bundle_that_came_first_leaves_nothing_of_it(at: Coordinators) -> None:
    """Also where it says the same as the one before, for another lifetime: the manifest is the same then."""
    signed = at.signed(at.draft(FIRST, SECOND))
    request = request_builder.bundle_request(at.database, [], CoordinatorSettings(), at.now)
    for key in at.roots[:2]:
        request = request.with_signature(key)
    trust_import.add_trust_bundle(at.database, request.document().to_bytes(), actor="root", now=at.now)
    refused(at, lambda: at.commit(signed), Code.CONCURRENT_UPDATE)
    goes_on(at)


@pytest.mark.parametrize("count", [0, 1])
def test_root_keys_enough_have_signed_it(at: Coordinators, count: int) -> None:
    refused(at, lambda: at.commit(at.signed(at.draft(FIRST), count)), Code.CONFLICT)


def test_a_signed_bundle_does_not_vouch_for_other_coordinators(at: Coordinators) -> None:
    """Whoever carries the file cannot name others, nor leave anybody out."""
    signed = at.signed(at.draft(FIRST, SECOND))
    other = {**signed.content, "coordinators": {FIRST: signed.coordinators[FIRST]}}
    forged = replace(signed, manifest=canonical.dumps(other))
    refused(at, lambda: at.commit(coordinator_set.read(forged.to_text())), Code.CONFLICT)
    of_another = at.signed(at.draft(FIRST)).signatures
    refused(at, lambda: at.commit(replace(forged, signatures=of_another)), Code.CONFLICT)
    foreign = SigningKey.generate()
    named = {**signed.signatures, at.roots[0].key_id: foreign.sign(forged._message())}
    refused(at, lambda: at.commit(replace(forged, signatures=named)), Code.CONFLICT)
    at.commit(signed)
    goes_on(at)


def test_a_set_of_another_cluster_is_refused(at: Coordinators, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Coordinators(tmp_path / "b", f"sqlite:///{tmp_path}/b/state.db", "staging")
    signed = other.signed(other.draft(FIRST))
    other.database.close()
    assert "cluster staging" in refused(at, lambda: at.commit(signed), Code.WRONG_CLUSTER)


def test_nobody_commits_a_set_whose_mesh_key_is_elsewhere(at: Coordinators) -> None:
    signed = at.signed(at.draft(FIRST))
    held, at.held = at.held, []
    refused(at, lambda: at.commit(signed), Code.NOT_FOUND)
    at.held = held
    at.commit(signed)


@pytest.mark.parametrize(
    ("names", "exchanged", "code"),
    [
        ((SECOND,), {}, Code.IN_USE),
        ((FIRST, "coord-9"), {}, Code.NOT_FOUND),
        ((FIRST,), {"coord_2": "sha256:xx"}, Code.BAD_REQUEST),
    ],
)
def test_what_cannot_be_is_not_drafted(
    at: Coordinators, names: tuple[str, ...], exchanged: dict[str, str], code: Code
) -> None:
    refused(at, lambda: at.draft(*names, **exchanged), code)


def test_who_has_no_identity_is_named_in_no_set(at: Coordinators) -> None:
    at.database.history = LinkedHistory(at.database.history.key)
    with at.database.change(actor="x", now=at.now) as transaction:
        transaction.run(replicas._TABLE.update().values(identity_sha256="").where(replicas._TABLE.c.url.like("%c3%")))
        transaction.audit("test", "x")
    refused(at, lambda: at.draft(*NAMES), Code.CONTRADICTION)
    at.draft(FIRST, SECOND)


# ---- owners of shares of the seed


def test_a_cluster_without_owners_is_given_some_once(at: Coordinators) -> None:
    """rules H39: root keys sign who they are; no set after that can change them, and each keeps them"""
    made = at.draft(*NAMES, owners=BY_NAME)
    assert f"gives alice a share of the seed, for the key {ALICE.key}" in made.changes()
    at.commit(at.signed(made))
    assert at.manifest()[1]["seed_share_owners"] == BY_NAME
    goes_on(at)
    assert at.manifest()[1]["seed_share_owners"] == BY_NAME
    for others in (BY_NAME, {"eve": ALICE.key}):
        detail = refused(at, lambda others=others: at.draft(*NAMES, owners=others), Code.CONTRADICTION)
        assert "alice, bob, and stay so" in detail
    replicas.remove(at.database, THIRD, answering=FIRST, actor="root", now=at.now)
    assert at.manifest()[1]["seed_share_owners"] == BY_NAME
    goes_on(at)


def test_no_change_names_other_owners_than_there_are(at: Coordinators) -> None:
    """rules H39: not only a set: whatever writes a link"""
    at.commit(at.signed(at.draft(*NAMES, owners=BY_NAME)))

    def change(owners: dict[str, str]) -> None:
        with at.database.change(actor="root", now=at.now) as transaction:
            transaction.named_owners = owners
            transaction.audit("test", "x")

    refused(at, lambda: change({"eve": ALICE.key}), Code.CONTRADICTION)
    refused(at, lambda: change({}), Code.CONTRADICTION)
    change(BY_NAME)
    goes_on(at)


def test_owners_that_nobody_signed_are_none(at: Coordinators) -> None:
    """Whoever carries the file cannot name another owner, nor another key"""
    signed = at.signed(at.draft(*NAMES, owners={"alice": ALICE.key}))
    for owners in ({"alice": BOB.key}, {"alice": ALICE.key, "eve": BOB.key}, {}):
        forged = replace(signed, manifest=canonical.dumps({**signed.content, "seed_share_owners": owners}))
        refused(at, lambda forged=forged: at.commit(coordinator_set.read(forged.to_text())), Code.CONFLICT)
    at.commit(signed)


def test_each_owner_is_given_a_share_and_nobody_else_is(at: Coordinators) -> None:
    """rules H4"""
    seed = seeds.load(at.keys, {})
    seal = partial(seed_shares.seal_all, at.database, seed, actor="root", now=at.now)
    assert "nobody owns" in refused(at, seal, Code.NO_STATE)
    refused(at, lambda: seed_shares.seal_all(at.database, None, actor="root", now=at.now), Code.NO_STATE)
    at.commit(at.signed(at.draft(*NAMES, owners=BY_NAME)))
    made = {owner: seed_share.parse(text.encode(), name=owner) for owner, text in seal().items()}
    assert {owner: share.owner for owner, share in made.items()} == {"alice": "alice", "bob": "bob"}
    assert (made["alice"].open(ALICE), made["bob"].open(BOB)) == (seed, seed)
    with at.database.read() as transaction:
        rows = transaction.rows(select(schema.audit).where(schema.audit.c.action == "seed_share.seal"))
    assert [row.after for row in rows] == ['{"owners":["alice","bob"]}']
    goes_on(at)


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a set."""
    folder = tmp_path_factory.mktemp("drafted")
    made = Coordinators(folder, f"sqlite:///{folder}/state.db")
    text = made.draft(FIRST, SECOND).to_text()
    made.database.close()
    assert coordinator_set.is_one(text)
    return text


def _with(text: str, path: tuple[str, ...], value: object) -> str:
    file = json.loads(text)
    place = file
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(file)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("about",), "something else", "do not say"),
        (("changes",), ["keeps everybody"], "do not say"),
        (("manifest", "mesh_key"), "sha256:" + "00" * 32, "mesh key"),
        (("manifest", "trust_bundle"), "sha256:" + "00" * 32, "another bundle"),
        (("manifest", "seed_share_owners"), {"eve": "key"}, "owners"),
        (("manifest", "seed_share_owners"), [], "owners"),
        (("before", "seed_share_owners"), {"eve": ALICE.key}, "owners"),
        (("manifest", "coordinators"), {}, "no coordinator"),
        (("manifest", "coordinators", "eve"), {"url": "https://e:1", "certificate_sha256": OTHER, "roles": []}, "eve"),
        (("manifest", "coordinators", FIRST, "url"), "https://evil.example:1", "more than its certificate"),
        (("manifest", "coordinators", FIRST, "certificate_sha256"), 7, "no sha256"),
        (("manifest", "more"), 1, "out of form"),
        (("before", "trust_bundle"), "sha256:" + "00" * 32, "does not follow"),
        (("before", "coordinators"), [], "out of form"),
        (("bundle", "about"), "another", "about"),
        (("signatures",), {"k": 5}, "signatures"),
        (("holdfast_coordinator_set",), 2, "holdfast_coordinator_set"),
    ],
)
def test_what_is_shown_is_what_is_signed(drafted: str, path: tuple[str, ...], value: object, why: str) -> None:
    """Threats D-14: a file that says anything else is none"""
    with pytest.raises(Refused) as caught:
        coordinator_set.read(_with(drafted, path, value))
    assert caught.value.code is Code.BAD_REQUEST
    assert why in caught.value.detail


def test_a_file_that_is_nested_too_deep_is_none() -> None:
    """Threats D-14: whoever is brought it to sign is told so, and nothing ends in the middle"""
    text = "[" * 50_000
    assert not coordinator_set.is_one(text)
    with pytest.raises(Refused) as caught:
        coordinator_set.read(text)
    assert caught.value.code is Code.BAD_REQUEST
