"""Probation, the way back and the quarantine against a plain model (hypothesis): rules L28, L32, L34, L36, S86.

What must hold whatever happens: marks and floors never fall; what `good` names is whole, unless this test has damaged
it; content in quarantine is not active before a person clears it; what is active can be read.
"""

import contextlib
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from store.base.errors import StoreError, StoreFault
from store.base.probation import MOST_CRASHES, MOST_GOOD, left_s
from store.base.records import ProbationTerms
from store.fsck.check import check
from tests.examples import examples
from tests.store.cluster import BOOT, CLUSTER, NOW, Cluster, Node
from tests.store.dying import FailingDisk

SCOPES = ("route_policy", "qos_policy")
HOUR = 3600
LASTS_S = 60.0
CLUSTER_OF_ALL = Cluster()  # keys are slow to check

scopes = st.sampled_from(SCOPES)
ALL = "ABCDEFGHIJKLMNOP"  # as many as a quarantine holds
letters = st.sampled_from(ALL[:5])
proved = st.lists(st.tuples(letters, st.booleans()), max_size=MOST_GOOD)
happenings = st.sampled_from(["damage", "later", "collect", "restart", "crash", "crash loop"])
some_terms = st.sampled_from([None, ProbationTerms(LASTS_S)])


class Held(NamedTuple):
    """A document: its version, its content, and when it ends."""

    version: int
    letter: str
    ends: int


@dataclass
class Scope:
    """What the model knows of one. `mark`: version and content, as accepted last; `tried`: what failed last."""

    active: Held | None = None
    previous: Held | None = None
    mark: tuple[int, str] | None = None
    good: list[Held] = field(default_factory=list)
    crashes: int | None = None  # None: not on probation
    is_timed: bool = False  # a boot's clock is in its row
    quarantine: set[str] = field(default_factory=set)
    tried: str | None = None
    damaged: set[str] = field(default_factory=set)

    @property
    def is_back(self) -> bool:
        """What was accepted failed, and what serves is what was good before."""
        return self.active is not None and self.mark is not None and self.active.version < self.mark[0]

    def take(self, held: Held, *, terms: ProbationTerms | None, timed: bool) -> None:
        is_same = self.active is not None and self.active.letter == held.letter
        is_good = any(entry.letter == held.letter for entry in self.good)
        if not is_same:
            self.previous, self.tried = self.active or self.previous, None
        if not is_same or is_good:
            others = [entry for entry in self.good if entry.letter != held.letter]
            on = terms is not None and not is_good
            self.good = others if on else [held, *others][:MOST_GOOD]
            self.crashes, self.is_timed = (0 if on else None), timed
        self.active, self.mark = held, (held.version, held.letter)

    def serviceable(self, now: float) -> list[Held]:
        return [
            entry
            for entry in self.good
            if self.active is not None
            and entry.letter != self.active.letter
            and entry.letter not in self.damaged
            and now < entry.ends
        ]

    def go_back(self, now: float) -> str:
        left, failed = self.serviceable(now), self.active
        self.crashes, self.tried = None, failed.letter
        if not left:
            return "nothing_to_go_back_to"
        self.quarantine.add(failed.letter)
        self.good, self.active = left, left[0]
        self.previous = left[1] if len(left) > 1 else None
        return "reverted"


def sections(scope, letter):
    """Nothing of it is in another content, nor in another scope."""
    return {"a": {"x": letter, "of": scope}, "b": f"{scope} {letter * 300}"}


class Model(RuleBasedStateMachine):
    """`lowest`: the marks and floors that were there once; none may be below."""

    def __init__(self):
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.node = Node(self.path / "root", CLUSTER_OF_ALL, disk=FailingDisk())
        self.known = {scope: Scope() for scope in SCOPES}
        self.now, self.lowest, self.highest = NOW, {}, dict.fromkeys(SCOPES, 0)

    @initialize()
    def enrolled(self):
        self.node.open()
        self.node.apply(self.node.cluster.bundle())

    # ---- what comes

    def made(self, scope, letter, *, ahead=1, short=False, version=None):
        """A document and what the model calls it."""
        version = version or self.highest[scope] + ahead
        ends = self.now + (HOUR if short else 48 * HOUR)
        times = {"issued_at": self.now - 60, "refresh_after": self.now + 60, "expires_at": ends}
        document = self.node.cluster.snapshot(version, sections(scope, letter), scope, **times)
        return document, Held(version, letter, ends)

    def come(self, scope, document, held, terms):
        """Downloaded, judged and activated, or refused for its content; whole bytes take the place of damaged ones."""
        known = self.known[scope]
        verdict = self.node.verified(document, self.now)
        known.damaged.discard(held.letter)
        terms_by_scope = {scope: terms} if terms is not None else {}
        if held.letter in known.quarantine:
            with pytest.raises(StoreError, match="in quarantine") as caught:
                self.node.store.activate(verdict, now=self.now, boot=BOOT, probations=terms_by_scope)
            assert caught.value.fault is StoreFault.CONFLICT
            self.node.store.slot(scope, verdict.envelope_hash).drop()
            return
        self.node.store.activate(verdict, now=self.now, boot=BOOT, probations=terms_by_scope)
        known.take(held, terms=terms, timed=True)
        self.highest[scope] = max(self.highest[scope], held.version)

    @rule(scope=scopes, letter=letters, terms=some_terms, ahead=st.integers(1, 3), short=st.booleans())
    def another(self, scope, letter, terms, ahead, short):
        """New content, content of before, or content that failed."""
        self.come(scope, *self.made(scope, letter, ahead=ahead, short=short), terms)

    @rule(scope=scopes, terms=some_terms)
    def renewed(self, scope, terms):
        """Equal content under a new version: what it is, it stays."""
        known = self.known[scope]
        if known.active is not None:
            before = known.crashes
            self.come(scope, *self.made(scope, known.active.letter), terms)
            assert known.crashes == before

    @rule(scope=scopes, terms=some_terms)
    def the_accepted_again(self, scope, terms):
        """After the way back the version that failed may come once more; its content says whether it is taken."""
        known = self.known[scope]
        if known.is_back:
            version, letter = known.mark
            self.come(scope, *self.made(scope, letter, version=version), terms)

    @rule(scope=scopes, letter=letters, terms=some_terms, at=st.integers(1, 9), number=st.sampled_from([5, 28]))
    def interrupted(self, scope, letter, terms, at, number):
        """The disk fails at some step of an activation: old or new, and its terms are not forgotten."""
        known = self.known[scope]
        if letter in known.quarantine:
            return
        document, held = self.made(scope, letter)
        terms_by_scope = {scope: terms} if terms is not None else {}
        self.node.disk.fail(at, OSError(number, "failed"))
        is_done = False
        with contextlib.suppress(StoreError):
            verdict = self.node.verified(document, self.now)
            self.node.store.activate(verdict, now=self.now, boot=BOOT, probations=terms_by_scope)
            is_done = True
        self.node.disk.broken = False
        resumed = not is_done and self.node.store.resume(self.now) == (scope,)
        self.note_what_is_whole(scope, letter)
        if is_done or resumed:
            known.take(held, terms=terms, timed=not resumed)
            self.highest[scope] = held.version

    # ---- what becomes of it

    @precondition(lambda self: any(known.crashes is not None for known in self.known.values()))
    @rule()
    def time_is_over(self):
        on = {scope for scope, known in self.known.items() if known.crashes is not None}
        assert set(self.node.store.pass_probation(*SCOPES, now=self.now)) == on
        for scope in on:
            known = self.known[scope]
            known.good, known.crashes = [known.active, *known.good][:MOST_GOOD], None

    @rule(of=st.sampled_from([SCOPES, SCOPES[:1], SCOPES[1:]]), breaks=st.booleans())
    def a_check_fails(self, of, breaks):
        """The newest good content serves, or what failed stays; a disk that refuses it changes nothing."""
        if breaks and any(self.known[scope].crashes is not None for scope in of):
            self.node.disk.fail(1, OSError(5, "failed"))
            with pytest.raises(StoreError):
                self.node.store.revert(*of, check="web", detail="exit 1", now=self.now)
            self.node.disk.broken = False
            self.the_store_says_what_the_model_says()
        self.revert(of)

    def revert(self, of):
        expected = {scope: self.known[scope].go_back(self.now) for scope in of if self.known[scope].crashes is not None}
        told = self.node.store.revert(*of, check="web", detail="exit 1", now=self.now)
        assert told == expected

    @rule(scope=scopes, letter=letters, proved=proved, before=st.lists(happenings, max_size=3))
    def a_change_goes_wrong(self, scope, letter, proved, before):
        """As it mostly does: what has proved itself gives way to other content, something happens, a check fails."""
        known = self.known[scope]
        for other, short in proved:
            self.come(scope, *self.made(scope, other, short=short), None)
        if letter in known.quarantine:
            letter = next((other for other in ALL if other not in known.quarantine), letter)
        self.come(scope, *self.made(scope, letter), ProbationTerms(LASTS_S))
        for happens in before:
            match happens:
                case "damage":
                    self.good_content_is_damaged(scope, 0)
                case "later":
                    self.later(2)
                case "collect":
                    self.collect()
                    self.what_is_good_is_never_collected()
                case "restart" | "crash":
                    self.restart(in_order=happens == "restart")
                case _:
                    for _ in range(MOST_CRASHES):
                        self.restart(in_order=False)
        self.revert([scope])
        self.the_store_says_what_the_model_says()

    @rule(scope=scopes, terms=some_terms)
    def what_failed_comes_again(self, scope, terms):
        """Under a new version, and is refused as long as nobody has cleared it."""
        for letter in sorted(self.known[scope].quarantine)[:1]:
            self.come(scope, *self.made(scope, letter), terms)

    @rule(scope=scopes)
    def a_person_clears_the_quarantine(self, scope):
        cleared = self.node.store.clear_quarantine(scope, now=self.now, by="uid 0")
        assert {failed.content_hash for failed in cleared} == self.hashes(scope, self.known[scope].quarantine)
        self.known[scope].quarantine.clear()

    @rule(scope=scopes)
    def withdraw(self, scope):
        self.node.store.withdraw(scope, now=self.now)
        known = self.known[scope]
        known.active = known.previous = known.crashes = known.tried = None
        known.good = []

    # ---- what happens to the store

    @rule(scope=scopes, which=st.integers(0, MOST_GOOD - 1))
    def good_content_is_damaged(self, scope, which):
        """On the disk, where nobody looks before it is wanted."""
        known = self.known[scope]
        others = [entry.letter for entry in known.good if known.active and entry.letter != known.active.letter]
        if others:
            letter = others[min(which, len(others) - 1)]
            with self.node.store._environment.write() as transaction:
                (key, data), *_ = transaction.items("sections", self.digest_of(scope, letter))
                transaction.put("sections", key, data[:-1] + bytes([data[-1] ^ (letter not in known.damaged)]))
            known.damaged.add(letter)

    @rule(hours=st.integers(1, 12))
    def later(self, hours):
        self.now += hours * HOUR

    @rule(most=st.integers(1, 5))
    def collect_a_little(self, most):
        self.node.store.garbage.step(most)

    @rule()
    def collect(self):
        self.node.store.garbage.run()

    @rule(in_order=st.booleans())
    def restart(self, in_order):
        """A start hashes everything, and counts an end without order; too many of them are a failed check."""
        if in_order:
            self.node.store.note_stop()
        self.node.reopen(self.now)
        assert {finding.happened for finding in self.node.store.findings} <= {"rolled_forward"}
        for known in self.known.values():
            known.good = [entry for entry in known.good if entry.letter not in known.damaged]
            if known.previous is not None and known.previous.letter in known.damaged:
                known.previous = None
            known.damaged.clear()
        faults = self.node.store.note_start(BOOT, self.now)
        for known in self.known.values():
            if known.crashes is not None:
                known.crashes += known.is_timed and not in_order
                known.is_timed = True
        expected = {scope for scope, known in self.known.items() if (known.crashes or 0) >= MOST_CRASHES}
        assert faults.keys() == expected
        self.revert(sorted(faults))

    # ---- what holds

    @invariant()
    def the_store_says_what_the_model_says(self):
        if self.node.store is None:
            return
        standing = self.node.store.standing()
        with self.node.store.read() as reading:
            for scope, known in self.known.items():
                assert self.told(reading.active(scope)) == known.active
                assert self.told(reading.previous(scope)) == known.previous
                assert [self.told(reading.document(entry.document)) for entry in reading.good(scope)] == known.good
                failed = reading.failure(scope)
                assert (failed.content_hash if failed else None) == (known.tried and self.hash_of(scope, known.tried))
        on = {scope for scope, known in self.known.items() if known.crashes is not None}
        assert standing.probations.keys() == on
        assert all(0 <= left_s(row, BOOT, self.now) <= LASTS_S for row in standing.probations.values())
        held = {scope: self.hashes(scope, known.quarantine) for scope, known in self.known.items() if known.quarantine}
        assert standing.quarantine == held

    @invariant()
    def marks_and_floors_never_fall(self):
        if self.node.store is None:
            return
        marks, floors = self.node.store.standing().marks, self.node.store.floors.scopes
        for scope, known in self.known.items():
            if known.mark is not None:
                assert marks[scope].config_version == floors[scope].mark.config_version == known.mark[0]
                assert marks[scope].config_version >= self.lowest.get(scope, 0)
                self.lowest[scope] = marks[scope].config_version

    @invariant()
    def what_serves_is_whole_and_not_in_quarantine(self):
        if self.node.store is None:
            return
        for scope, known in self.known.items():
            held = self.node.store.active(scope)
            if held is not None:
                assert json.loads(held.read("b")) == sections(scope, known.active.letter)["b"]
                assert known.active.letter not in known.quarantine

    @invariant()
    def what_is_good_is_never_collected(self):
        if self.node.store is None:
            return
        with self.node.store.read() as reading:
            for scope, known in self.known.items():
                for entry in reading.good(scope):
                    letter = self.told(document := reading.document(entry.document)).letter
                    if letter not in known.damaged:
                        assert json.loads(document.read("b")) == sections(scope, letter)["b"]

    # ---- words of the model and of the store

    def note_what_is_whole(self, scope, letter):
        """Whether an interrupted download has brought the bytes anew."""
        with self.node.store._environment.read() as transaction:
            stored = [data for _, data in transaction.items("sections", self.digest_of(scope, letter))]
        if stored and stored[0] == json.dumps(sections(scope, letter)["b"]).encode():
            self.known[scope].damaged.discard(letter)

    def told(self, document):
        if document is None:
            return None
        envelope = document.envelope
        scope = envelope.scope
        letter = next(letter for letter in ALL if self.hash_of(scope, letter) == document.content_hash)
        return Held(envelope.config_version, letter, envelope.expires_at)

    def hash_of(self, scope, letter):
        return self._known_content(scope, letter)[0]

    def digest_of(self, scope, letter):
        """Of the section that `damage` is done to."""
        return bytes.fromhex(self._known_content(scope, letter)[1])

    def hashes(self, scope, some):
        return {self.hash_of(scope, letter) for letter in some}

    @staticmethod
    @cache
    def _known_content(scope, letter):
        document = CLUSTER_OF_ALL.snapshot(1, sections(scope, letter), scope)
        return document.envelope.content_hash, json.loads(document.manifest_bytes)["b"]["sha256"]

    def teardown(self):
        self.node.close()
        faults = {fault.code for fault in check(self.node.path, CLUSTER)}
        damaged = any(known.damaged for known in self.known.values())
        shutil.rmtree(self.path)
        assert faults <= ({"blob_damaged"} if damaged else set())


TestModel = Model.TestCase
# Shrinking runs of a real store takes minutes; the run that failed is printed as it is.
TestModel.settings = examples(30, stateful_step_count=30, phases=[Phase.explicit, Phase.reuse, Phase.generate])
