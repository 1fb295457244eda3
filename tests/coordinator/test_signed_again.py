"""The last heads signed again while the database is away: one content under a number, and no node goes back.

The machine is two replicas over one database, two nodes that ask any of them, and every order of changes, publications,
cuts, crashes, repetitions and time. It asks the code that the daemon runs; what it leaves out is the wire.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from coordinator.database.database import Database
from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import head_cache, heads, published_state
from coordinator.publishing.board import Board, News
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.replicas import generations, signed_again
from coordinator.replicas.generations import BLOCK, MOST_REPEATS
from coordinator.replicas.signed_again import OpenedHead
from coordinator.reports.checkin import Comparison
from coordinator.runtime import maintenance
from coordinator.runtime.absence import Absence
from coordinator.runtime.repeating import repeat_heads
from coordinator.trust import restored_backup
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD
from snapshot.manifest import Revocations, parse_head
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified, verify
from tests.coordinator import copies, migrated
from tests.coordinator.publishing import HOUR, STATE, Press, Reader
from tests.examples import examples
from tests.fakes.node import accepted

NODES = ("node-a", "node-b")
BOUND_S = 6 * HOUR
KEYS = (SigningKey.generate(),)


@pytest.fixture
def press(tmp_path: Path) -> Iterator[Press]:
    """What is published once; the decisions are the same whatever the database is."""
    database = Database(migrated.at(tmp_path / "state.db"))
    made = Press.published(database, *NODES)
    yield made
    database.close()


def issue_of(press: Press, **other: object) -> Issue:
    with press.database.read() as transaction:
        return replace(published_state.read_issue(transaction, press.keys, press.settings, press.now), **other)


def out(press: Press, node_id: str = "node-a") -> News:
    found = head_cache.latest_head(press.database, node_id)
    assert found is not None
    return found


def take(reader: Reader, container: bytes, now: float) -> None:
    """As a node takes it that holds what the head before it lists."""
    verdict = verify(ChunkParts([container]), reader.holder, kind="head", now=now, keep=lambda *_: None)
    assert isinstance(verdict, Verified), verdict
    reader.holder = accepted(reader.holder, verdict, {})


def test_it_says_the_same_later(press: Press) -> None:
    """rules S85: a number above and later dates, and nothing else; two replicas make the very same bytes."""
    reader, first = press.reader().follow(), out(press)
    head = OpenedHead.of(first.container)
    later = head.envelope.refresh_after + 1
    issue = issue_of(press)
    made, look_at = repeat_heads({"node-a": first}, issue, later)["node-a"]
    assert made.pair == (first.pair[0], first.pair[1] + 1) and made.names == first.names
    assert look_at == made.refresh_after == head.envelope.refresh_after + head.step_s
    assert repeat_heads({"node-a": first}, issue, later + 60)["node-a"][0] == made
    assert repeat_heads({"node-a": made}, issue, later + 60)["node-a"] == (None, look_at)
    take(reader, made.container, later)
    before, after = parse_head(head.manifest), parse_head(OpenedHead.of(made.container).manifest)
    assert after == replace(before, generation=made.pair[1])
    again, _ = repeat_heads({"node-a": made}, issue, look_at)["node-a"]
    assert again.pair[1] == made.pair[1] + 1 and again.first is first
    take(reader, again.container, look_at)


@given(
    lifetime=st.integers(10, 86_400),
    share=st.floats(0.3, 0.7),
    back_s=st.integers(0, 300),
    number=st.integers(1, MOST_REPEATS),
)
@examples(40)
def test_one_follows_the_other_without_a_gap(lifetime: int, share: float, back_s: int, number: int) -> None:
    """Whatever the lifetimes are: each is due before the one before it ends, and none is dated ahead."""
    now = 1_700_000_000
    times = {
        "issued_at": now - back_s,
        "refresh_after": now + max(1, int(lifetime * share)),
        "expires_at": now + lifetime,
    }
    claims = EnvelopeClaims("ab" * 16, "prod", HEAD, BLOCK, 1, **times, subject_node_id="node-a")
    written = signer.sign(claims.envelope(HEAD), b'{"generation":1000}', (), KEYS)
    one, head = written.envelope, OpenedHead(written.envelope, written.manifest_bytes)
    begins_at = head.begins_at(number)
    assert signed_again.repeat_due(head, begins_at - 1) == number - 1
    assert signed_again.repeat_due(head, begins_at) == number
    made = signed_again.sign_again(head, number, KEYS).envelope
    before = signed_again.sign_again(head, number - 1, KEYS).envelope if number > 1 else one
    assert before.expires_at > begins_at and made.expires_at > before.expires_at
    assert before.issued_at <= made.issued_at <= begins_at and made.valid_from == made.issued_at
    assert made.refresh_after > begins_at


def test_a_block_that_is_used_up_ends_it(press: Press) -> None:
    head = OpenedHead.of(out(press).container)
    assert signed_again.repeat_due(head, head.begins_at(MOST_REPEATS)) == MOST_REPEATS
    assert signed_again.repeat_due(head, head.begins_at(BLOCK)) == 0
    from_before = OpenedHead(replace(head.envelope, config_version=17), head.manifest)
    assert signed_again.repeat_due(from_before, head.begins_at(1)) == 0


def test_numbers_of_the_block_are_never_published(press: Press) -> None:
    """rules X16: the swap refuses it, nothing is changed, and the next one goes out."""
    before = out(press)
    press.apply(STATE.replace("workers: 4", "workers: 5"))
    (draft,) = press.prepare("node-a").drafts
    publication = draft.publication
    assert publication.head.config_version == before.pair[1] + BLOCK
    wrong = replace(publication, head=replace(publication.head, config_version=before.pair[1] + 7))
    refusals = heads.publish(press.database, [wrong], actor="coordinator", now=press.now)
    assert "to be signed again" in refusals["node-a"].detail
    assert out(press) == before
    assert heads.publish(press.database, [publication], actor="coordinator", now=press.now) == {}
    assert out(press).pair == (1, before.pair[1] + BLOCK)


def test_it_is_no_proof_of_an_old_backup_but_a_later_one_is(press: Press) -> None:
    """rules K41: the head on record signed again is that head; one above its block was lost."""
    first = out(press)
    later = OpenedHead.of(first.container).envelope.refresh_after
    again, _ = repeat_heads({"node-a": first}, issue_of(press), later)["node-a"]
    shown = restored_backup.prove_head(press.database, "node-a", again.container)
    assert restored_backup.stands(press.database, "node-a", shown) is Comparison.EQUAL
    assert restored_backup.keep(press.database, "node-a", shown, now=later) is Comparison.EQUAL
    lost = replace(shown, mark=shown.mark._replace(config_version=first.pair[1] + BLOCK))
    assert restored_backup.stands(press.database, "node-a", lost) is Comparison.RESTORED_BACKUP
    assert not first.is_behind(again.pair) and first.is_behind(lost.mark.pair)
    assert not generations.repeats((1, 17), (1, 18)) and not generations.repeats((1, BLOCK), (2, BLOCK + 1))


def test_a_key_that_was_revoked_signs_none(press: Press) -> None:
    """rules S40: as far as this replica knows; nor is a head repeated that says less of revocations than is known."""
    first = out(press)
    later = OpenedHead.of(first.container).envelope.refresh_after
    revoked = issue_of(press, revocations=Revocations(1, key_ids=frozenset({press.bundles.config.key_id})))
    with pytest.raises(Unpublishable, match="no_signer"):
        repeat_heads({"node-a": first}, revoked, later)
    more = issue_of(press, revocations=Revocations(1, node_ids=frozenset({"node-b"})))
    assert repeat_heads({"node-a": first}, more, later)["node-a"][0] is None
    assert repeat_heads({"node-a": first}, issue_of(press), later)["node-a"][0] is not None


def test_a_copy_that_lacks_a_head_is_found(press: Press) -> None:
    """rules P30: of a node that had joined since, too; one that has a later head lacks nothing"""
    board = Board()
    board.announce("node-a", out(press))
    assert maintenance._lost_heads(press.database, board) == ""
    board.announce("node-b", News((1, 0), b""))
    assert maintenance._lost_heads(press.database, board) == ""
    board.announce("node-z", News((1, BLOCK), b""))
    assert "node-z" in maintenance._lost_heads(press.database, board)
    board.announce("node-a", News((1, 9 * BLOCK), b""))
    assert "node-a, node-z" in maintenance._lost_heads(press.database, board)


@dataclass
class Replica:
    """What a coordinator has in memory."""

    absence: Absence
    board: Board = field(default_factory=Board)
    is_cut: bool = False


class Outages(RuleBasedStateMachine):
    """`press` is the database, and the publisher of whoever reaches it."""

    def __init__(self, press: Press) -> None:
        super().__init__()
        self.press = press
        self.replicas = [self.start(), self.start()]
        self.readers = {node_id: press.reader(node_id).follow() for node_id in NODES}
        self.known: dict[tuple[str, int, int], bytes] = {}  # whatever was signed as a head of a node
        self.workers = 0
        self.newest = dict.fromkeys(NODES, 0)  # the publication that a node has, by its number
        for replica in self.replicas:
            self.look(replica)

    def start(self) -> Replica:
        return Replica(Absence(BOUND_S, lambda: self.press.now))

    def look(self, replica: Replica) -> None:
        """As the keeper does it, and the nodes whose questions it holds."""
        if replica.is_cut:
            replica.absence.note_silence()
            return
        for node_id, pair in head_cache.pairs(self.press.database).items():
            if pair > replica.board.nodes().get(node_id, (0, 0)):
                replica.board.announce(node_id, out(self.press, node_id))
        replica.absence.note_answer(issue_of(self.press), now=self.press.now)

    def remember(self, node_id: str, news: News) -> None:
        key = (node_id, *news.pair)
        assert self.known.setdefault(key, news.container) == news.container, "two documents under one number"

    @rule(number=st.integers(0, 1), is_changed=st.booleans())
    def publishes(self, number: int, is_changed: bool) -> None:
        """Whoever reaches the database: a change of what is declared, or what is due."""
        replica = self.replicas[number]
        if replica.is_cut:
            return
        if is_changed:
            self.workers += 1
            self.press.apply(STATE.replace("workers: 4", f"workers: {4 + self.workers}"))
        for node_id in self.publish():
            self.remember(node_id, out(self.press, node_id))
        self.look(replica)

    def publish(self) -> list[str]:
        if not self.press.due():
            return []
        return [draft.publication.node_id for draft in self.press.publish().drafts]

    @rule(number=st.integers(0, 1))
    def is_cut_off(self, number: int) -> None:
        self.replicas[number].is_cut = True
        self.look(self.replicas[number])

    @rule(number=st.integers(0, 1))
    def is_back(self, number: int) -> None:
        self.replicas[number].is_cut = False
        self.look(self.replicas[number])

    @rule(number=st.integers(0, 1))
    def crashes(self, number: int) -> None:
        """One that starts cut off has looked at nothing."""
        is_cut = self.replicas[number].is_cut
        self.replicas[number] = replace(self.start(), is_cut=is_cut)
        self.look(self.replicas[number])

    @rule(seconds=st.sampled_from([300, 1_000, 1_000, HOUR, BOUND_S]))
    def time_passes(self, seconds: int) -> None:
        self.press.now += seconds

    @rule(number=st.integers(0, 1))
    def signs_again(self, number: int) -> None:
        """As the task does it; within its time no node of a replica that is cut off goes without a fresh head."""
        replica, now = self.replicas[number], self.press.now
        self.look(replica)
        if not replica.absence.may_sign:
            return
        issue = replace(replica.absence.issue, now=now)
        for node_id, (news, _) in repeat_heads(dict(replica.board.items()), issue, now).items():
            if news is not None:
                self.remember(node_id, news)
                replica.board.announce(node_id, news)
            assert OpenedHead.of(replica.board.latest(node_id).container).envelope.expires_at > now

    @rule(number=st.integers(0, 1), node_id=st.sampled_from(NODES))
    def asks(self, number: int, node_id: str) -> None:
        replica, reader = self.replicas[number], self.readers[node_id]
        self.look(replica)
        news = replica.board.latest(node_id)
        held = reader.holder.marks["head"].version
        if news is None or news.pair <= held:
            return
        try:
            take(reader, news.container, self.press.now)
        except Rejected as rejected:
            assert rejected.reason is Reason.EXPIRED, rejected
            return
        publication = news.pair[1] // BLOCK
        assert publication >= self.newest[node_id], "what was published before came after"
        self.newest[node_id] = publication

    @invariant()
    def a_node_is_never_ahead_of_the_record(self) -> None:
        """rules K41: nobody takes the database for one that was restored."""
        for node_id, reader in self.readers.items():
            held = reader.holder.marks["head"].version
            assert not out(self.press, node_id).is_behind(held)


def test_whatever_is_cut_off_when(press: Press) -> None:
    """rules X16, S85, K41"""
    restore = copies.of(press.database)

    def begun() -> Outages:
        restore(press.database)
        return Outages(Press(press.database, bundles=replace(press.bundles)))

    run_state_machine_as_test(begun, settings=examples(8, stateful_step_count=20))
