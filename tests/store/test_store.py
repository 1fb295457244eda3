"""The store against a plain dictionary (hypothesis): rules S66, S84, L28, L32, L34, L36, S3."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.declared import increments
from snapshot import canonical
from snapshot.config_files import FILES, parse_index
from snapshot.identifiers import parse_scope
from store.base.errors import StoreError
from store.fsck.check import check
from tests.examples import examples
from tests.fakes.config_document import FileContent, config_sections
from tests.store.cluster import BOOT, CLUSTER, NOW, Cluster, Node
from tests.store.dying import FailingDisk

WEB = "config/web"  # of raw sections
SCOPES = ("route_policy", "qos_policy", WEB)
CLUSTER_OF_ALL = Cluster()  # keys are slow to check

scopes = st.sampled_from(SCOPES)
contents = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), min_size=1)


def sections_of(scope, content):
    """Of a Config each number is a file, in parts of two bytes."""
    if scope != WEB:
        return content, frozenset()
    made = config_sections({name: FileContent(b"%d" % value * 3) for name, value in content.items()}, 2)
    return made.sections, made.raw


def document(cluster, version, scope, content):
    sections, raw = sections_of(scope, content)
    named = parse_scope(scope)
    return cluster.snapshot(version, sections, named.type, scope_ids=named.ids, raw=raw)


def change(cluster, version, base, held, content):
    """An increment to that content; the index of a Config goes with its files."""
    sections, raw = sections_of(WEB, content)
    delta = increments.changes(base.state, held.read, sections, raw, always={FILES})
    return cluster.increment(version, base, delta.changes, delta.brought, scope_ids=("web",))


class Model(RuleBasedStateMachine):
    """`active`, `previous`: scope -> (version, content). `mark`: scope -> version. What is told is what is kept."""

    def __init__(self):
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.node = Node(self.path / "root", CLUSTER_OF_ALL, disk=FailingDisk())
        self.active, self.previous, self.mark, self.verified = {}, {}, {}, {}
        self.withdrawn = set()
        self.good = {}  # up to three contents, the newest first: nothing here is on probation
        self.events = 0

    @initialize()
    def enrolled(self):
        self.node.open()
        self.node.apply(self.node.cluster.bundle())
        self.generation = self.node.store.watch.generation
        self.events = 1

    def swapped(self, scope, version, content, verdict):
        if scope in self.active and self.active[scope][1] != content:
            self.previous[scope] = self.active[scope]
        self.active[scope] = (version, content)
        others = [each for each in self.good.get(scope, []) if each[1] != content]
        self.good[scope] = [(version, content), *others][:3]
        self.mark[scope] = version
        self.withdrawn.discard(scope)
        self.verified[scope] = verdict
        self.events += 1

    @rule(scope=scopes, content=contents, ahead=st.integers(1, 3))
    def snapshot(self, scope, content, ahead):
        version = self.mark.get(scope, 0) + ahead
        verdict = self.node.apply(document(self.node.cluster, version, scope, content))
        self.generation += 1
        self.swapped(scope, version, content, verdict)

    @rule(first=contents, second=contents, third=contents)
    def all_at_once(self, first, second, third):
        verdicts = []
        for scope, content in zip(SCOPES, (first, second, third), strict=True):
            made = document(self.node.cluster, self.mark.get(scope, 0) + 1, scope, content)
            verdicts.append(self.node.verified(made))
        self.node.store.activate(*verdicts, now=NOW, boot=BOOT)
        self.generation += 1
        for scope, content, verdict in zip(SCOPES, (first, second, third), verdicts, strict=True):
            self.swapped(scope, self.mark.get(scope, 0) + 1, content, verdict)

    @precondition(lambda self: self.active)
    @rule(scope=scopes, name=st.sampled_from("abcd"), value=st.integers(0, 9))
    def increment(self, scope, name, value):
        if scope not in self.active:
            return
        version, (_, content) = self.mark[scope] + 1, self.active[scope]
        base, after = self.verified[scope], content | {name: value}
        if scope != WEB:
            made = self.node.cluster.setting(version, base, name, value)
        elif after != content:
            made = change(self.node.cluster, version, base, self.node.store.active(scope), after)
        else:
            return
        verdict = self.node.apply(made)
        self.generation += 1
        self.swapped(scope, version, after, verdict)

    @rule(scope=scopes, content=contents, at=st.integers(1, 9), number=st.sampled_from([5, 28]))
    def interrupted(self, scope, content, at, number):
        """The disk fails at some step: old or new, and `resume` brings what the floors named."""
        version = self.mark.get(scope, 0) + 1
        made = document(self.node.cluster, version, scope, content)
        self.node.disk.fail(at, OSError(number, "failed"))
        verdict = None
        with contextlib.suppress(StoreError):
            verdict = self.node.apply(made)
        self.node.disk.broken = False
        if verdict is None and self.node.store.resume(NOW):
            verdict = self.node.store.active(scope)
            verdict = type("Base", (), {"envelope": verdict.envelope, "state": verdict.sections})
        if verdict is not None:
            self.generation += 1
            self.swapped(scope, version, content, verdict)

    @rule(scope=scopes)
    def withdraw(self, scope):
        self.node.store.withdraw(scope, now=NOW)
        if scope in self.mark and scope not in self.withdrawn:
            self.generation += 1
            self.events += 1
            self.withdrawn.add(scope)
        self.active.pop(scope, None)
        self.previous.pop(scope, None)
        self.good.pop(scope, None)

    @rule(scope=scopes)
    def fall_back(self, scope):
        happened = self.node.store.fall_back(scope, now=NOW, cause="a test")
        assert (happened is None) == (scope not in self.active)
        if scope not in self.active:
            return
        self.generation += 1
        self.events += 1
        damaged = self.active.pop(scope)
        self.good[scope] = [each for each in self.good[scope] if each != damaged]
        left = [self.previous.pop(scope)] if scope in self.previous else self.good[scope]
        if left:
            self.active[scope] = left[0]
            held = self.node.store.active(scope)
            self.verified[scope] = type("Base", (), {"envelope": held.envelope, "state": held.sections})

    @rule(most=st.integers(1, 5))
    def collect_a_little(self, most):
        self.node.store.garbage.step(most)

    @rule()
    def collect(self):
        self.node.store.garbage.run()

    @rule()
    def download_and_forget(self):
        self.node.download(self.node.cluster.snapshot(99, {"a": "never"}, scope=SCOPES[0])).drop()

    @rule()
    def restart(self):
        self.node.reopen()
        assert self.node.store.findings == ()

    @invariant()
    def the_store_says_what_the_model_says(self):
        if self.node.store is None:
            return
        with self.node.store.read() as reading:
            assert reading.generation == self.generation
            for scope in SCOPES:
                assert self.held(reading.active(scope)) == self.active.get(scope)
                assert self.held(reading.previous(scope)) == self.previous.get(scope)
        marks = self.node.store.standing().marks
        assert {scope: marks[scope].config_version for scope in SCOPES if scope in marks} == self.mark
        assert self.node.store.watch.generation == self.generation

    @staticmethod
    def held(document):
        if document is None:
            return None
        if document.envelope.scope != WEB:
            return document.envelope.config_version, {name: int(document.read(name)) for name in document.sections}
        files = parse_index(canonical.loads(document.read(FILES))).items()
        found = {path: b"".join(map(document.read, file.sections)) for path, file in files}
        assert all(document.sections[name].is_raw for _, file in files for name in file.sections)
        assert all(data == data[:1] * 3 for data in found.values())
        return document.envelope.config_version, {path: int(data[:1]) for path, data in found.items()}

    def teardown(self):
        if self.node.store is not None:
            told = [event for event in self.node.store.journal.events(0) if event.event != "rolled_forward"]
            numbers = [event.sequence for event in self.node.store.journal.events(0)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(told) <= self.events <= len(numbers)
        self.node.close()
        faults = list(check(self.node.path, CLUSTER))
        shutil.rmtree(self.path)
        assert faults == []


TestModel = Model.TestCase
# Shrinking runs of a real store takes minutes; the run that failed is printed as it is.
TestModel.settings = examples(25, stateful_step_count=20, phases=[Phase.explicit, Phase.reuse, Phase.generate])
