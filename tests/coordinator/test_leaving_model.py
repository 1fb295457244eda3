"""A model of who belongs to a cluster: joins, drains, removals, trims, returns, restored copies, and time.

Whatever comes in which order:

- Of an id there is never more than one life: a member, or a tombstone, or neither; and no key of an earlier life is
  answered unless an operator has let exactly that id in again.
- Nobody is trimmed who was seen, or joined, within the window, nor while nobody was ready for all of it.
- Who is draining stays a member, and nobody else is removed.
"""

import copy
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy import select

from coordinator.base.refusal import Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import catalog, readiness, schema
from coordinator.database.database import Database
from coordinator.membership import leaving, revocation, trimming
from coordinator.reports import last_seen
from tests.coordinator import candidates, migrated
from tests.coordinator.candidates import NOW, Candidate
from tests.examples import examples
from tests.memory import memory_folder
from wire.operators.operator_answers import AllowlistEntry

SETTINGS = CoordinatorSettings(trim_window_s=8 * DAY, snapshot_lifetime_s=7 * DAY)
WINDOW = SETTINGS.trim_window_s
IDS = ("n1", "n2", "n3")
KEYS = {node_id: [Candidate(node_id), Candidate(node_id)] for node_id in IDS}
node_ids = st.sampled_from(IDS)


@dataclass
class Life:
    """What the world knows: who is in, by which key, when it was heard of, and since when all could be."""

    lives: dict[str, int] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    ready_since: float | None = None


class Leaving(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="leaving-", dir=memory_folder()))
        self.database = Database(migrated.at(self.folder / "state.db"))
        candidates.found(self.database)
        self.now, self.world = NOW, Life()
        self.saved: tuple[Path, Life] | None = None

    def teardown(self) -> None:
        self.database.close()
        shutil.rmtree(self.folder)

    @property
    def how(self) -> dict[str, object]:
        return {"actor": "root", "now": self.now}

    # ---- nodes

    @rule(node_id=node_ids, key=st.integers(0, 1))
    def asks_to_join(self, node_id: str, key: int) -> None:
        """Allowed where it may be, with a token that is bound to it."""
        world, node = self.world, KEYS[node_id][key]
        try:
            candidates.allow(self.database, node)
            token = candidates.token_for(self.database, node_id, now=self.now)
            candidates.join(self.database, node, token, now=self.now)
        except Refused:
            assert node_id in world.gone
            return
        assert node_id not in world.gone
        if node_id not in world.lives:
            world.heard[node_id] = self.now
        world.lives[node_id] = key

    @rule(node_id=node_ids)
    def is_seen(self, node_id: str) -> None:
        last_seen.record(self.database, {node_id: self.now})
        if node_id in self.world.lives:
            self.world.heard[node_id] = self.now

    # ---- time

    @rule(days=st.integers(1, 9), ready=st.sampled_from([True, True, True, False]))
    def time_passes(self, days: int, ready: bool) -> None:
        until = self.now + days * DAY
        if not ready:
            self.world.ready_since = None
        while self.now < until:
            self.now += DAY
            if ready:
                self._note_a_day()
            self._trim()

    def _note_a_day(self) -> None:
        """The word of every minute, as its first and its last."""
        begin = self.now - DAY
        if self.world.ready_since is None:
            readiness.note(self.database, now=begin)
            self.world.ready_since = begin
        with self.database.record() as transaction:
            transaction.run(schema.readiness.update().values(until=self.now))

    def _trim(self) -> None:
        """As every hour."""
        for node_id in trimming.trim(self.database, now=self.now, settings=SETTINGS):
            self._check_trimmed(node_id)

    @rule()
    def is_trimmed_by_an_operator(self) -> None:
        try:
            gone = trimming.trim_these(self.database, IDS, settings=SETTINGS, **self.how)
        except Refused:
            return
        for node_id in gone:
            self._check_trimmed(node_id)

    def _check_trimmed(self, node_id: str) -> None:
        assert self.now - self.world.heard[node_id] >= WINDOW
        assert self.world.ready_since is not None and self.now - self.world.ready_since >= WINDOW
        self._leave(node_id)

    def _leave(self, node_id: str) -> None:
        world = self.world
        del world.lives[node_id]
        world.heard.pop(node_id)
        world.draining.discard(node_id)
        world.gone.add(node_id)

    # ---- operators

    @rule(node_id=node_ids)
    def is_drained(self, node_id: str) -> None:
        try:
            leaving.drain(self.database, node_id, **self.how)
        except Refused:
            assert node_id not in self.world.lives
        else:
            self.world.draining.add(node_id)

    @rule(node_id=node_ids)
    def is_undrained(self, node_id: str) -> None:
        try:
            leaving.undrain(self.database, node_id, **self.how)
        except Refused:
            assert node_id not in self.world.lives
        else:
            self.world.draining.discard(node_id)

    @rule(node_id=node_ids)
    def is_removed(self, node_id: str) -> None:
        try:
            leaving.remove(self.database, node_id, reason="", **self.how)
        except Refused:
            assert node_id not in self.world.draining
        else:
            assert node_id in self.world.draining
            self._leave(node_id)

    @rule(node_id=node_ids)
    def is_readmitted(self, node_id: str) -> None:
        try:
            revocation.readmit(self.database, AllowlistEntry(node_id), **self.how)
        except Refused:
            assert node_id not in self.world.gone
        else:
            self.world.gone.discard(node_id)

    # ---- copies

    @rule()
    def is_copied(self) -> None:
        self.database.close()
        place = self.folder / "copy.db"
        shutil.copyfile(self.folder / "state.db", place)
        self.saved = place, copy.deepcopy(self.world)

    @rule()
    def is_put_back(self) -> None:
        """All is as it was; but time has passed, in which nobody was ready for these members."""
        if self.saved is None:
            return
        self.database.close()
        for name in ("state.db-wal", "state.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copyfile(self.saved[0], self.folder / "state.db")
        self.database = Database(self.database.url)
        self.world = copy.deepcopy(self.saved[1])
        with self.database.read() as transaction:
            self.world.ready_since = readiness.since(transaction, self.now)

    # ---- whatever comes

    @invariant()
    def there_is_one_life_of_each(self) -> None:
        with self.database.read() as transaction:
            tombs = {row.node_id for row in transaction.rows(select(schema.tombstones.c.node_id))}
            pins = {id_: entry.certificates for id_, entry in catalog.load(transaction).members.items()}
        entries = {entry.node_id: entry.draining_since is not None for entry in catalog.nodes(self.database)}
        assert pins == {id_: (KEYS[id_][key].der,) for id_, key in self.world.lives.items()}
        assert tombs == self.world.gone and not tombs & pins.keys()
        assert {id_ for id_, is_draining in entries.items() if is_draining} == self.world.draining


TestLeaving = Leaving.TestCase
TestLeaving.settings = examples(12, stateful_step_count=25)
