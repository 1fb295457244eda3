"""Sets of coordinators, made and committed in any order, against what there may be at any time (rules H3, H24, H38).

The model is a list: each manifest that was ever in place. A set that was made from the last of them is committed; any
other one is `concurrent_update`, and changes nothing. Whoever the last one names may change the state, and nobody else.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from coordinator.base.refusal import Code, Refused
from coordinator.database import history_check
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.membership import replicas
from coordinator.trust.coordinator_set import CoordinatorSet
from tests.coordinator import migrated
from tests.coordinator.candidates import contents
from tests.coordinator.sets import FIRST, NAMES, SECOND, THIRD, Coordinators
from tests.examples import examples
from tests.memory import memory_folder

KEPT = ("audit", "coordinators", "objects", "pointers", "transitions", "trust_bundles")
PINS = [f"sha256:{number:064x}" for number in range(16, 20)]


class Sets(RuleBasedStateMachine):
    sets = Bundle("sets")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=memory_folder()))
        self.at = Coordinators(self.folder, migrated.at(self.folder / "state.db"))
        self.ever = [self.at.manifest()[0]]
        self.pins = {replica.coordinator_id: replica.identity_sha256 for replica in self.present()}
        self.former: set[tuple[str, str]] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.at.database.close()
            shutil.rmtree(self.folder)

    @rule(target=sets, others=st.sets(st.sampled_from([SECOND, THIRD])), pin=st.none() | st.sampled_from(PINS))
    def draft(self, others: set[str], pin: str | None) -> CoordinatorSet:
        names = {FIRST, *(others & self.pins.keys())}
        exchanged = {SECOND.replace("-", "_"): pin} if pin and SECOND in names else {}
        return self.at.signed(self.at.draft(*sorted(names), **exchanged))

    @rule(signed=sets)
    def commit(self, signed: CoordinatorSet) -> None:
        before = contents(self.at.database, *KEPT)
        try:
            self.at.commit(signed)
        except Refused as refused:
            assert refused.code is Code.CONCURRENT_UPDATE
            assert signed.follows != self.ever[-1]
            assert contents(self.at.database, *KEPT) == before
            return
        assert signed.follows == self.ever[-1]
        self.follow({name: str(entry["certificate_sha256"]) for name, entry in signed.coordinators.items()})

    @rule(name=st.sampled_from([SECOND, THIRD]), pin=st.sampled_from(PINS))
    def pin(self, name: str, pin: str) -> None:
        """Beside any set, on the machine of the coordinator"""
        if name in self.pins and pin not in self.pins.values():
            self.at.now += 1  # back and forth within one second is the manifest of before, and as good
            replicas.pin(self.at.database, name, pin, actor="root", now=self.at.now)
            self.follow({**self.pins, name: pin})

    @rule(name=st.sampled_from([SECOND, THIRD]))
    def remove(self, name: str) -> None:
        if name in self.pins:
            self.at.now += 1
            replicas.remove(self.at.database, name, answering=FIRST, actor="root", now=self.at.now)
            self.follow({other: pin for other, pin in self.pins.items() if other != name})

    @rule()
    def anything_else(self) -> None:
        """It is a link, and makes no other manifest."""
        self.change(FIRST, self.pins[FIRST])

    @invariant()
    def the_manifest_names_who_may_change_something(self) -> None:
        if not hasattr(self, "ever"):
            return
        digest, said = self.at.manifest()
        assert digest == self.ever[-1]
        assert {name: entry["certificate_sha256"] for name, entry in said["coordinators"].items()} == self.pins
        assert {replica.coordinator_id for replica in self.present()} == self.pins.keys()
        assert history_check.compare(self.at.database, "coordinators") == ""
        for name, pin in sorted(self.former - set(self.pins.items()))[:2]:
            try:
                self.change(name, pin)
            except Refused as refused:
                assert refused.code is Code.NOT_IN_MANIFEST
            else:
                raise AssertionError(f"{name} with {pin} has changed something")

    # ---- what there is

    def follow(self, pins: dict[str, str]) -> None:
        self.former |= set(self.pins.items())
        self.pins = pins
        if self.at.manifest()[0] != self.ever[-1]:
            assert self.at.manifest()[0] not in self.ever
            self.ever.append(self.at.manifest()[0])

    def present(self) -> list[replicas.Replica]:
        return replicas.list_replicas(self.at.database)

    def change(self, name: str, pin: str) -> None:
        database = self.at.database
        kept = database.history
        assert isinstance(kept, LinkedHistory)
        database.history = LinkedHistory(kept.key, OwnEntry(name, pin))
        try:
            with database.change(actor=name, now=self.at.now) as transaction:
                transaction.audit("test", name)
        finally:
            database.history = kept


Sets.TestCase.settings = examples(8, stateful_step_count=15, suppress_health_check=list(HealthCheck))
TestSets = Sets.TestCase


def test_the_model_can_tell() -> None:
    """Of two sets from one manifest one is committed."""
    model = Sets()
    model.begin()
    first, second = model.draft({SECOND}, None), model.draft({THIRD}, None)
    model.commit(first)
    model.commit(second)
    assert (model.pins.keys(), len(model.ever)) == ({FIRST, SECOND}, 2)
    assert set(NAMES) - model.pins.keys() == {THIRD}
    model.the_manifest_names_who_may_change_something()
    model.teardown()
