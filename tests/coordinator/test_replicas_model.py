"""Replicas that set manifests, change the state, crash, lose their secrets or their whole disk and recover from each
other, in any order, against the three invariants of seed 004 (rules H3..H7, H15, H26, H27, H37, H39, H44, H46).

    seed        each replica has the one that was made here, or one that came from a coordinator of a manifest with
                exactly the same owners
    mesh key    each replica has made it for a set of its own, or has it from a coordinator of the manifest that names
                it, and no two sets have the same
    sharing     whatever was handed over went to a coordinator that the manifest in place named, by its certificate

All of it is the product's: the sets, the links, the seven steps of a recovery, and the files that secrets lie in. The
model knows what is in place, who has what and from whom, and what each act must therefore come to. Reads of before are
real ones, of a copy of the database.
"""

import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state, history_check, history_manifest, object_store
from coordinator.database.continuity import Continuity
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import keystore
from coordinator.keys import seed as seeds
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import coordinator_sets, peer_recovery, replicas
from coordinator.membership.peer_recovery import UnverifiedManifest
from coordinator.runtime import recovering
from coordinator.trust.ceremony import PublicKey
from coordinator.trust.coordinator_set import CoordinatorSet
from snapshot import canonical
from tests.coordinator import migrated
from tests.coordinator.sets import FIRST, NAMES, Coordinators
from tests.examples import examples
from tests.memory import memory_folder

NONCE = "cd" * 32
MOST_LOST = 3  # disks, in one run
_ANY = st.integers(0, 5)
_NAMES = st.sampled_from(NAMES)
_OTHERS = st.sampled_from(NAMES[1:])


@dataclass
class Replica:
    """A coordinator on a machine of its own: what is on its disk, and what it works with since its start."""

    name: str
    pin: str
    keys: Path
    url: str
    seen: Continuity = field(default_factory=Continuity)
    made: set[str] = field(default_factory=set)  # mesh keys that it has made
    received: set[tuple[str, str]] = field(default_factory=set)  # and that it was given, with by whom
    is_kept: bool = True  # `keep_secrets`

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """With what lies on the disk; of SQLite it remembers nothing."""
        self.seen, self.own = Continuity(), OwnSecrets(self.keys, {}, self.is_kept)

    def lose(self) -> None:
        """All but its identity."""
        shutil.rmtree(self.keys)
        self.keys.mkdir(mode=0o700)
        self.start()

    def lose_all(self, pin: str) -> None:
        """And is prepared anew, as another identity."""
        self.pin = pin
        self.lose()

    def opened(self, url: str = "") -> Database:
        database, seed = Database(url or self.url), self.own.seed()
        if seed is not None:
            database.history = LinkedHistory(seed.history_key, OwnEntry(self.name, self.pin), self.seen)
        return database

    def held(self) -> dict[str, SigningKey]:
        return {key.key_id: key for key in self.own.config_keys()}

    def has_seed(self) -> bool:
        return self.own.seed() is not None


@dataclass(frozen=True)
class Attempt:
    """A recovery that has begun: what was read, unverified, by whom."""

    name: str
    tried: UnverifiedManifest


class Replicas(RuleBasedStateMachine):
    sets = Bundle("sets")
    attempts = Bundle("attempts")
    copies = Bundle("copies")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=memory_folder()))
        self.file = self.folder / "state.db"
        url = migrated.at(self.file)
        self.at = Coordinators(self.folder, url)
        self.seed = seeds.load(self.at.keys, {})
        pins = {each.coordinator_id: each.identity_sha256 for each in replicas.list_replicas(self.at.database)}
        places = {name: self.folder / name / "keys" for name in NAMES} | {FIRST: self.at.keys}
        self.replicas = {
            name: Replica(name, pins[name], place, url, is_kept=name != NAMES[-1]) for name, place in places.items()
        }
        for name in NAMES[1:]:
            self.replicas[name].keys.mkdir(mode=0o700, parents=True)
        self.replicas[FIRST].made = set(self.replicas[FIRST].held())
        self.present = dict(pins)  # the manifest in place
        self.mesh_key = self.manifest()["mesh_key"]
        self.sets_of_key = {self.mesh_key: 1}
        self.lost = 0

    def teardown(self) -> None:
        if hasattr(self, "at"):
            self.at.database.close()
            shutil.rmtree(self.folder)

    # ---- manifests

    @rule(target=sets, which=_ANY, without=st.none() | _OTHERS)
    def draft(self, which: int, without: str | None) -> Any:
        """By one that has the seed; the mesh key stays with it. Of names that are in place alone, with the identities
        that they have now.
        """
        able = [each for each in self.replicas.values() if each.has_seed() and self.is_named(each)]
        if not able:
            return multiple()
        replica = able[which % len(able)]
        name, names = replica.name, (self.present.keys() - {without}) | {replica.name}
        self.at.now += 1
        key = keystore.new_key()
        with closing(replica.opened()) as database:
            public = PublicKey(key.algorithm, key.public_key)
            wanted = {each: self.exchanged(each) for each in sorted(names)}
            made = coordinator_sets.draft(database, wanted, public, CoordinatorSettings(), self.at.now, answering=name)
        replica.own.keep_key(key)
        replica.made.add(key.key_id)
        return name, self.at.signed(made)

    @rule(made=sets, elsewhere=st.none() | st.none() | _NAMES)
    def commit(self, made: tuple[str, CoordinatorSet], elsewhere: str | None) -> None:
        """Where it was made, or anywhere: without its key, without the seed, too late."""
        name, signed = made
        replica = self.replicas[elsewhere or name]
        self.at.now += 1
        expected, held = self.expected_of_commit(replica, signed), list(replica.held())
        with closing(replica.opened()) as database:
            wanted = (database, signed, held)
            outcome = self.outcome(lambda: coordinator_sets.commit(*wanted, actor="root", now=self.at.now))
        assert outcome == expected, (outcome, expected)
        if outcome is None:
            self.present = {name: str(entry["certificate_sha256"]) for name, entry in signed.coordinators.items()}
            self.mesh_key = signed.mesh_key
            self.sets_of_key[self.mesh_key] = self.sets_of_key.get(self.mesh_key, 0) + 1

    def expected_of_commit(self, replica: Replica, signed: CoordinatorSet) -> Code | None:
        if not replica.has_seed():
            return Code.NO_STATE
        if signed.follows != self.manifest_hash():
            return Code.CONCURRENT_UPDATE
        if signed.mesh_key not in replica.held():
            return Code.NOT_FOUND
        return None if self.is_named(replica) else Code.NOT_IN_MANIFEST

    @rule(name=_OTHERS)
    def remove(self, name: str) -> None:
        first = self.replicas[FIRST]
        if name in self.present and self.is_named(first) and first.has_seed():
            self.at.now += 1
            with closing(first.opened()) as database:
                replicas.remove(database, name, answering=FIRST, actor="root", now=self.at.now)
            del self.present[name]

    # ---- transitions

    @rule(name=_NAMES)
    def change(self, name: str) -> None:
        """A link, by whoever is named and has the seed; nobody else moves anything."""
        replica, before = self.replicas[name], self.link_number()
        with closing(replica.opened()) as database:
            outcome = self.outcome(lambda: _change(database, name, self.at.now))
        if not replica.has_seed():
            assert outcome is Code.UNTRUSTED_HISTORY
        else:
            assert outcome is (None if self.is_named(replica) else Code.NOT_IN_MANIFEST)
        assert self.link_number() == before + (outcome is None)

    @rule(target=copies)
    def copy(self) -> tuple[str, int]:
        """As it is now: for reads of before, later."""
        path = self.folder / f"copy-{self.link_number()}-{len(list(self.folder.glob('copy-*')))}.db"
        with closing(sqlite3.connect(self.file)) as source, closing(sqlite3.connect(path)) as target:
            source.backup(target)
        path.chmod(0o600)
        return f"sqlite:///{path}", self.link_number()

    @rule(copied=copies, name=_NAMES)
    def answer_as_before(self, copied: tuple[str, int], name: str) -> None:
        """A database that answers reads of last week: nothing is signed from it by who has seen more."""
        replica, (url, number) = self.replicas[name], copied
        if not replica.has_seed():
            return
        known = replica.seen.seen.mark.number
        with closing(replica.opened(url)) as database:
            outcome = self.outcome(lambda: _ask_sound(database))
        assert outcome is (Code.STALE_STATE if known > number else None), (known, number)
        with closing(replica.opened()) as database:
            assert self.outcome(lambda: _ask_sound(database)) is None

    # ---- crashes

    @rule(name=_NAMES)
    def crash(self, name: str) -> None:
        """What is in memory alone is gone, where somebody else has it."""
        if self.replicas[name].is_kept or self.has_others(name):
            self.replicas[name].start()

    @precondition(lambda self: self.lost < MOST_LOST)
    @rule(name=_NAMES)
    def lose_disk(self, name: str) -> None:
        """Not where nobody else has what it has: then owners have to help, which is no part of this."""
        self.lost += 1
        if self.has_others(name):
            self.replicas[name].lose()

    @precondition(lambda self: self.lost < MOST_LOST)
    @rule(name=_OTHERS)
    def lose_machine(self, name: str) -> None:
        """Nobody knows the one in its place, until a set names it: then it gets all that the lost one had."""
        self.lost += 1
        if self.has_others(name):
            self.replicas[name].lose_all(f"sha256:{1000 + self.lost:064x}")
            assert not self.is_named(self.replicas[name])

    # ---- peers

    @rule(target=attempts, name=_NAMES)
    def begin_recovery(self, name: str) -> Attempt:
        """Step 1, by one that lacks something."""
        with closing(Database(self.replicas[name].url)) as database:
            tried = peer_recovery.read_unverified(database, name)
        assert tried is not None and tried.pins == self.present
        return Attempt(name, tried)

    @rule(begun=attempts, peer=_NAMES, copied=st.none() | copies)
    def end_recovery(self, begun: Attempt, peer: str, copied: tuple[str, int] | None) -> None:
        """Steps 2 to 7, now or much later; of a peer that may itself answer from a state of before."""
        if begun.name == peer:
            return
        replica, asked = self.replicas[begun.name], self.replicas[peer]
        seed = asked.own.seed()
        with closing(asked.opened(copied[0] if copied else "")) as database:
            keys = list(asked.held().values())
            args = (database, replica.name, replica.pin, NONCE, seed, keys)
            there = self.manifest_at(database)
            try:
                answer = peer_recovery.hand_over(*args)
            except Refused as refused:
                assert refused.code in (Code.PERMISSION_DENIED, Code.STALE_STATE, Code.NOT_IN_MANIFEST)
                is_able = there["mesh_key"] in asked.held() and seed is not None
                is_known = _pins(there).get(asked.name) == asked.pin and _pins(there).get(replica.name) == replica.pin
                assert not (is_able and is_known), refused
                return
        assert _pins(there)[replica.name] == replica.pin, "handed over to whom no manifest names"
        assert _pins(there)[asked.name] == asked.pin
        beside = Database(replica.url)
        try:
            pins = PinnedRootKeys(tuple(key.key_id for key in self.at.roots), 2)
            found = peer_recovery.judge(beside, begun.tried, NONCE, answer, pins, replica.own.seed())
        except Refused as refused:
            assert refused.code is Code.MANIFEST_MISMATCH
            assert not answer.manifest == begun.tried.content == self.manifest_bytes()
            return
        finally:
            beside.close()
        assert answer.manifest == begun.tried.content == self.manifest_bytes()
        assert history_manifest.owners_of(answer.manifest) == history_manifest.owners_of(self.manifest_bytes())
        recovering._keep(replica.own, found)
        replica.received.add((found.mesh_key.key_id, peer))

    @rule(name=_NAMES)
    def recover(self, name: str) -> None:
        """All seven at once, from whoever is ready: of the manifest in place, that always leads to being ready."""
        replica = self.replicas[name]
        ready = [each.name for each in self.replicas.values() if self.is_ready(each) and each is not replica]
        if not ready or self.is_ready(replica):
            return
        self.end_recovery(self.begin_recovery(name), ready[0], None)
        assert self.is_ready(replica) == self.is_named(replica)

    # ---- what must hold at any time

    @invariant()
    def the_seed_is_the_clusters(self) -> None:
        """rules H5"""
        for replica in getattr(self, "replicas", {}).values():
            assert replica.own.seed() in (None, self.seed)

    @invariant()
    def each_mesh_key_is_of_one_set_and_came_as_it_may(self) -> None:
        """rules H4, H6"""
        if not hasattr(self, "replicas"):
            return
        assert set(self.sets_of_key.values()) == {1}
        for replica in self.replicas.values():
            given = {key_id for key_id, _ in replica.received}
            assert replica.held().keys() <= replica.made | given
            for key_id, peer in replica.received:
                assert key_id in self.sets_of_key and peer in self.replicas

    @invariant()
    def there_is_one_history(self) -> None:
        """rules H3, H12: whoever has the seed reads the same newest link, and each table is as it says."""
        if not hasattr(self, "replicas"):
            return
        said = self.manifest()
        assert (_pins(said), said["mesh_key"]) == (self.present, self.mesh_key)
        assert history_check.compare(self.at.database, "coordinators") == ""

    @invariant()
    def secrets_are_nowhere_in_the_database(self) -> None:
        """rules H4, H7"""
        if not hasattr(self, "replicas"):
            return
        with self.at.database.read() as transaction:
            rows = transaction.connection.exec_driver_sql("SELECT value FROM objects").all()
        kept = b"".join(bytes(row[0]) for row in rows)
        assert self.seed.seed not in kept and self.seed.seed.hex().encode() not in kept and b"PRIVATE" not in kept

    # ---- what there is

    def is_named(self, replica: Replica) -> bool:
        return self.present.get(replica.name) == replica.pin

    def exchanged(self, name: str) -> str:
        """Its pin, where that is to be another one."""
        pin = self.replicas[name].pin
        return "" if self.present.get(name) == pin else pin

    def has_others(self, name: str) -> bool:
        return any(self.is_ready(other) for other in self.replicas.values() if other.name != name)

    def is_ready(self, replica: Replica) -> bool:
        return self.is_named(replica) and replica.has_seed() and self.mesh_key in replica.held()

    def manifest_hash(self) -> str:
        return self.at.manifest()[0]

    def manifest(self) -> dict:
        return self.at.manifest()[1]

    def manifest_bytes(self) -> bytes:
        with self.at.database.read() as transaction:
            return object_store.get(transaction, f"manifests/{self.manifest_hash()}")

    def manifest_at(self, database: Database) -> dict:
        found = peer_recovery.read_unverified(database, "")
        assert found is not None
        return canonical.loads(found.content)

    def link_number(self) -> int:
        with self.at.database.read() as transaction:
            return self.at.database.history.latest(transaction).mark.number

    @staticmethod
    def outcome(act) -> Code | None:
        try:
            act()
        except Refused as refused:
            return refused.code
        return None


def _change(database: Database, actor: str, now: float) -> None:
    with database.change(actor=actor, now=now) as transaction:
        transaction.audit("test", actor)


def _ask_sound(database: Database) -> None:
    with database.read() as transaction:
        cluster_state.sound(transaction)


def _pins(manifest: dict) -> dict[str, str]:
    return {name: entry["certificate_sha256"] for name, entry in manifest["coordinators"].items()}


def test_the_model_can_tell() -> None:
    """What the rules above may or may not come to, once each: recovered, refused, too late, moved on, gone back."""
    model = Replicas()
    model.begin()
    early = model.begin_recovery("coord-2")
    copied = model.copy()
    model.recover("coord-2")
    second = model.replicas["coord-2"]
    assert model.is_ready(second) and second.received == {(model.mesh_key, FIRST)}
    late, made = model.draft(0, None), model.draft(1, "coord-3")
    assert made[0] == "coord-2"
    model.commit(made, None)
    assert model.present.keys() == {FIRST, "coord-2"} and not model.is_ready(model.replicas[FIRST])
    model.commit(late, None)
    model.end_recovery(early, FIRST, None)
    model.end_recovery(early, FIRST, copied)
    assert second.received == {(next(iter(model.sets_of_key)), FIRST)}, "nothing of a manifest of before was adopted"
    model.recover("coord-3")
    assert not model.replicas["coord-3"].has_seed()
    model.recover(FIRST)
    assert model.is_ready(model.replicas[FIRST])
    model.change(FIRST)
    model.answer_as_before(copied, FIRST)
    assert model.replicas[FIRST].seen.seen.mark.number > copied[1]
    model.lose_disk("coord-2")
    model.change("coord-2")
    model.recover("coord-2")
    model.lose_machine("coord-2")
    model.recover("coord-2")
    assert not second.has_seed(), "handed over to whom no manifest names"
    model.commit(model.draft(0, None), None)
    model.recover("coord-2")
    assert model.is_ready(second) and model.is_named(second)
    for name in ("the_seed_is_the_clusters", "each_mesh_key_is_of_one_set_and_came_as_it_may", "there_is_one_history"):
        getattr(model, name)()
    model.secrets_are_nowhere_in_the_database()
    model.teardown()


Replicas.TestCase.settings = examples(6, stateful_step_count=20, suppress_health_check=list(HealthCheck))
TestReplicas = Replicas.TestCase
