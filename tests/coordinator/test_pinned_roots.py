"""Whom a coordinator believes, and what it does not do while what it lacks is elsewhere (rules H15, H16, H17, H34).

The rules' own words are in docs/rules.toml; each test shows what is refused, that nothing changed, and that it ends.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from coordinator.base.refusal import Code, Refused
from coordinator.database import history, schema
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import AwaitedHistory, OwnEntry
from coordinator.keys import keystore
from coordinator.keys import seed as seeds
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import peer_recovery, replicas
from coordinator.trust import pinned_roots
from tests.coordinator.candidates import contents
from tests.coordinator.sets import FIRST, SECOND, Coordinators

TABLES = ("nodes", "audit", "coordinators", "transitions", "pointers")


@pytest.fixture
def at(tmp_path: Path, database_url: str) -> Iterator[Coordinators]:
    made = Coordinators(tmp_path, database_url)
    yield made
    made.database.close()


def pins_of(at: Coordinators, count: int = 3) -> PinnedRootKeys:
    return PinnedRootKeys(tuple(key.key_id for key in at.roots[:count]), min(count, 2))


def mesh_key_of(at: Coordinators) -> str:
    return at.manifest()[1]["mesh_key"]


def other(at: Coordinators, *held: str) -> Database:
    """The database of the first coordinator's own process, with these config keys at hand."""
    database = Database(at.database.url)
    seed = seeds.load(at.keys, {})
    own = OwnEntry(FIRST, at.own_pin(), keys=lambda: set(held))
    database.history = LinkedHistory(seed.history_key, own)
    return database


def change(database: Database, now: float) -> None:
    replicas.pin(database, SECOND, f"sha256:{os.urandom(32).hex()}", actor="root", now=now)


def code_of(call, *arguments: object) -> Code:
    with pytest.raises(Refused) as caught:
        call(*arguments)
    return caught.value.code


# ---- without the mesh key


def test_without_the_mesh_key_of_the_newest_manifest_nothing_is_changed(at: Coordinators) -> None:
    """rules H15, H16, H34: found in a call, also where nobody has looked before; what was read may be read on"""
    before_set = mesh_key_of(at)
    with closing(other(at, before_set)) as database:
        change(database, at.now)
        at.commit(at.signed(at.draft(FIRST, SECOND)))
        before = contents(at.database, *TABLES)
        assert code_of(change, database, at.now) is Code.RECOVERY_MODE
        assert code_of(history.look, database) is Code.RECOVERY_MODE
        assert contents(at.database, *TABLES) == before
        assert replicas.list_replicas(database)


def test_it_ends_by_the_key_of_that_manifest(at: Coordinators) -> None:
    """rules H17: by its own file as well as by another coordinator's"""
    held = {mesh_key_of(at)}
    database = other(at)
    database.history.own.keys = lambda: held
    with closing(database):
        at.commit(at.signed(at.draft(FIRST, SECOND)))
        assert code_of(change, database, at.now) is Code.RECOVERY_MODE
        held.add(mesh_key_of(at))
        assert history.look(database) is not None
        change(database, at.now)


def test_a_newer_state_of_the_same_manifest_is_no_recovery(at: Coordinators) -> None:
    """rules H16: it is loaded and verified without it"""
    with closing(other(at, mesh_key_of(at))) as database:
        change(at.database, at.now)
        assert history.look(database) is not None
        replicas.pin(database, SECOND, "sha256:" + "ee" * 32, actor="root", now=at.now)


def test_a_set_that_was_made_here_reaches_one_that_lacks_the_key(at: Coordinators) -> None:
    """rules H21: `set` goes on, since it leads to a manifest whose key is here"""
    held = {mesh_key_of(at)}
    database = other(at)
    database.history.own.keys = lambda: held
    with closing(database):
        at.commit(at.signed(at.draft(FIRST, SECOND)))
        assert code_of(change, database, at.now) is Code.RECOVERY_MODE
        following = at.signed(at.draft(FIRST, SECOND))
        assert code_of(at.commit, following, database) is Code.RECOVERY_MODE, "made elsewhere"
        held.add(following.mesh_key)
        at.commit(following, database)
        change(database, at.now)


def test_who_can_ask_nobody_is_not_in_recovery_mode(at: Coordinators) -> None:
    """It goes by the keys that it has, and says which are missing (rules H21)"""
    with closing(other(at)) as database:
        database.history.own.keys = None
        at.commit(at.signed(at.draft(FIRST, SECOND)))
        change(database, at.now)


# ---- without the seed


def test_without_the_seed_nothing_is_believed_or_changed(at: Coordinators) -> None:
    """rules H15, H34"""
    with closing(Database(at.database.url)) as database:
        database.history = AwaitedHistory()
        before = contents(at.database, *TABLES)
        assert code_of(change, database, at.now) is Code.RECOVERY_MODE
        assert code_of(history.look, database) is Code.RECOVERY_MODE
        assert history.newest_manifest(database) == (0, "")
        assert contents(at.database, *TABLES) == before


# ---- whom it believes


def follow(at: Coordinators, pins: PinnedRootKeys, cluster_id: str = "prod") -> pinned_roots.FollowedBundle:
    with at.database.read() as transaction:
        return pinned_roots.follow(transaction, pins, cluster_id)


def test_the_root_keys_lead_to_the_newest_bundle(at: Coordinators) -> None:
    """rules H50: over as many sets as there were"""
    for _ in range(3):
        at.commit(at.signed(at.draft(FIRST, SECOND)))
        found = follow(at, pins_of(at))
        assert found.content_hash == at.manifest()[1]["trust_bundle"]
        assert found.lists(mesh_key_of(at))
    assert follow(at, pins_of(at, 2)) == found
    assert not found.lists(at.roots[0].key_id)


@pytest.mark.parametrize("named", ["nobody", "others", "one too many", "another cluster"])
def test_other_root_keys_lead_nowhere(at: Coordinators, named: str) -> None:
    """rules H50: never the first ones that come"""
    own, stranger = pins_of(at), SigningKey.generate().key_id
    pins = {
        "nobody": PinnedRootKeys(),
        "others": PinnedRootKeys((stranger,)),
        "one too many": PinnedRootKeys((*own.key_ids, stranger)),
        "another cluster": own,
    }[named]
    cluster_id = "staging" if named == "another cluster" else "prod"
    assert code_of(follow, at, pins, cluster_id) is Code.UNTRUSTED_HISTORY
    follow(at, own)


def test_a_bundle_that_is_gone_breaks_the_chain(at: Coordinators) -> None:
    """rules H50"""
    at.commit(at.signed(at.draft(FIRST, SECOND)))
    at.commit(at.signed(at.draft(FIRST, SECOND)))
    at.database.is_tampered = True
    with at.database.engine.begin() as connection:
        connection.execute(delete(schema.trust_bundles).where(schema.trust_bundles.c.config_version == 2))
    assert code_of(follow, at, pins_of(at)) is Code.UNTRUSTED_HISTORY


def test_a_forged_store_with_a_server_of_its_own_is_not_believed(at: Coordinators, tmp_path: Path) -> None:
    """rules H50: a whole cluster of the same name, with its own roots, seed, history and mesh key, and a server that
    proves itself as its manifest says
    """
    folder = tmp_path / "forged"
    folder.mkdir()
    forged = Coordinators(folder, f"sqlite:///{folder}/state.db")
    with closing(forged.database):
        keys = keystore.config_keys(forged.keys, {})
        pin = replicas.identity_of(forged.database, SECOND)
        answer = peer_recovery.hand_over(forged.database, SECOND, pin, "ab" * 32, seeds.load(forged.keys, {}), keys)
        tried = peer_recovery.read_unverified(forged.database, SECOND)

        def judge(pins: PinnedRootKeys, held: Seed | None = None):
            with closing(Database(forged.database.url)) as beside:
                return peer_recovery.judge(beside, tried, "ab" * 32, answer, pins, held)

        assert code_of(judge, pins_of(at)) is Code.UNTRUSTED_HISTORY
        assert code_of(judge, PinnedRootKeys()) is Code.UNTRUSTED_HISTORY
        assert code_of(judge, PinnedRootKeys(), seeds.load(at.keys, {})) is Code.UNTRUSTED_HISTORY
        assert judge(pins_of(forged)).seed == seeds.load(forged.keys, {})


def test_a_mesh_key_that_the_bundle_does_not_list_is_not_believed(at: Coordinators) -> None:
    """rules H50: whoever has the seed can write a manifest, and no bundle"""
    seed = seeds.load(at.keys, {})
    keys = keystore.config_keys(at.keys, {})
    pin = replicas.identity_of(at.database, SECOND)
    answer = peer_recovery.hand_over(at.database, SECOND, pin, "ab" * 32, seed, keys)
    tried = peer_recovery.read_unverified(at.database, SECOND)
    for changed in (replace(tried, mesh_key=SigningKey.generate().key_id), replace(tried, trust_bundle="sha256:00")):
        with closing(Database(at.database.url)) as beside:
            judged = (beside, changed, "ab" * 32, answer, pins_of(at), None)
            assert code_of(peer_recovery.judge, *judged) in (Code.UNTRUSTED_HISTORY, Code.BAD_REQUEST)
