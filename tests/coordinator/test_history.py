"""The signed, chained history of the state, on both databases (rules H0, H3, H12, H38, H48, P11)."""

from collections.abc import Callable

import pytest
from sqlalchemy import bindparam, delete, insert, select, text, update

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import history, history_check, history_manifest, object_store, running_digests, schema
from coordinator.database.cluster_state import Founding
from coordinator.database.continuity import ZERO, LastSeen, LinkMark, link_at
from coordinator.database.database import Database, Transaction
from coordinator.database.history import FirstLink, LinkedHistory
from coordinator.database.history_check import CheckedPart
from coordinator.keys.seed import Seed
from coordinator.membership import admission, revocation
from coordinator.reports import heartbeats
from coordinator.runtime import retention
from snapshot import canonical
from tests.coordinator import copies, entered
from tests.coordinator.candidates import NOW, admit, allow, contents, cut_out, found
from tests.coordinator.candidates import Candidate as Node
from tests.coordinator.histories import HISTORY
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import heartbeat


@pytest.fixture
def linked(database: Database) -> Database:
    """A cluster whose history has begun, with a member."""
    database.history = HISTORY
    copies.made(database, "linked", begin)
    return database


def begin(database: Database) -> None:
    found(database)
    admit(database, "node-a")


def change(database: Database, what: str = "test") -> None:
    with database.change(actor="root", now=NOW) as transaction:
        transaction.audit(what, "something")


def outside(database: Database, *statements: object) -> None:
    """As whoever can write to the database, and has no seed."""
    database.is_tampered = True
    with database.engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)


def latest(database: Database) -> history.Latest:
    with database.read() as transaction:
        return HISTORY.latest(transaction)


def refusal(call: Callable[[], object], code: Code = Code.UNTRUSTED_HISTORY) -> str:
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.code is code, caught.value
    assert caught.value.remedy
    return caught.value.detail


def verified(database: Database, *, most: int = history_check.PAGE) -> CheckedPart:
    """All pages together."""
    whole = part = history_check.verify(database, most=most)
    while part.next is not None:
        after = history_check.cursor_of(history_check.text_of(part.next))
        part = history_check.verify(database, after, most=most)
        whole.links, whole.rows = whole.links + part.links, whole.rows + part.rows
        whole.faults += part.faults
        whole.notes += part.notes
    return whole


def faults(database: Database) -> list[str]:
    return [fault.what for fault in verified(database).faults]


def compared(database: Database) -> list[str]:
    return [fault for name in history_check.COMPARED if (fault := history_check.compare(database, name))]


def stays(database: Database, call: Callable[[], object], why: str) -> None:
    """Refused for this, and nothing has changed."""
    tables = ("audit", "nodes", "pointers", "transitions", "objects")
    before = contents(database, *tables)
    assert why in refusal(call)
    assert contents(database, *tables) == before


# ---- links


def test_each_change_is_a_link(linked: Database) -> None:
    """rules H0, H12: chained, content-addressed, zero is the root, one signed pointer"""
    newest = latest(linked)
    numbers = list(range(1, newest.mark.number + 1))
    with linked.read() as transaction:
        kept = [link_at(transaction, number) or "" for number in numbers]
        links = [history.parse_transition(history.get(transaction, history.TRANSITIONS, each)) for each in kept]
    assert [link.number for link in links] == numbers
    assert [link.previous for link in links] == [ZERO, *kept[:-1]]
    assert newest.mark == LinkMark(numbers[-1], kept[-1])
    assert newest.state["cluster"]["authority_epoch"] == 1
    assert set(newest.state["digests"]) == set(running_digests.TABLES)
    assert (faults(linked), compared(linked)) == ([], [])
    change(linked)
    assert latest(linked).transition.previous == kept[-1]


def test_the_manifest_says_who_the_coordinators_are(linked: Database) -> None:
    """rules H0, H24: made anew when one changes, and named again when none does"""
    before = latest(linked).transition.manifest
    change(linked)
    assert latest(linked).transition.manifest == before
    second = Founding("prod", "coord-2", "https://b.example:7443", "sha256:" + "ab" * 32, b"k" * 44)
    entered.add(linked, second, actor="root", now=NOW + 5)
    with linked.read() as transaction:
        said = canonical.loads(history.get(transaction, history.MANIFESTS, latest(linked).transition.manifest))
    assert said["coordinators"]["coord-2"] == {
        "url": second.url, "certificate_sha256": second.certificate_sha256, "roles": ["coordinator"]
    }  # fmt: skip
    assert (said["seed_share_owners"], said["created_at"]) == ({}, NOW + 5)
    assert compared(linked) == []
    outside(linked, update(schema.coordinators).values(url="https://evil.example:1"))
    assert "coordinators" in compared(linked)[0]


def test_a_rehearsed_or_failed_change_is_no_link(linked: Database) -> None:
    before = latest(linked)
    with linked.rehearse(actor="root", now=NOW) as transaction:
        transaction.audit("test", "x")
    with pytest.raises(Refused):
        admission.disallow(linked, "stranger", actor="root", now=NOW)
    assert latest(linked) == before


def test_reports_are_linked_by_the_next_change_or_by_the_keeper(linked: Database) -> None:
    with linked.record(now=NOW) as transaction:
        transaction.audit("report", "node-a")
    assert verified(linked).unlinked == 1
    change(linked)
    assert verified(linked).unlinked == 0
    with linked.record(now=NOW) as transaction:
        transaction.audit("report", "node-a")
    before = latest(linked).mark.number
    assert history.link_strays(linked, now=NOW)
    assert not history.link_strays(linked, now=NOW)
    assert (latest(linked).mark.number, verified(linked).unlinked) == (before + 1, 0)
    assert faults(linked) == []


def test_two_coordinators_make_one_chain(linked: Database, second: Database) -> None:
    """rules H3: whatever one has linked, the next link of the other follows"""
    second.history = HISTORY
    for database in (linked, second, linked, second):
        change(database)
    assert (faults(linked), faults(second)) == ([], [])


# ---- H48: eight cases of `latest`, each before a link is added, and at a look


def test_latest_is_good(linked: Database) -> None:
    """rules H48"""
    assert history.look(linked) == latest(linked).mark
    change(linked)


def swapped(number: int = 0, **members: object) -> dict[str, object]:
    return {"value": b"{}", **members}


def test_latest_names_an_object_that_was_changed(linked: Database) -> None:
    """rules H11, H48"""
    for kind, digest in (("transitions", latest(linked).mark.transition), ("states", latest(linked).transition.state)):
        table = schema.objects
        with linked.read() as transaction:
            whole = object_store.get(transaction, f"{kind}/{digest}")
        here = update(table).where(table.c.key == f"{kind}/{digest}")
        outside(linked, here.values(value=whole.replace(b"1", b"2")))
        stays(linked, lambda: change(linked), "does not hold what its name says")
        outside(linked, here.values(value=whole))
    change(linked)


@pytest.mark.parametrize(
    ("signature", "why"), [("AAAA", "is not good"), ("", "has no signature"), ("not base64!", "has no signature")]
)
def test_latest_with_another_signature_or_none(linked: Database, signature: str, why: str) -> None:
    """rules H48"""
    pointer = latest(linked).pointer
    outside(linked, update(schema.pointers).values(signature=signature))
    stays(linked, lambda: change(linked), why)
    assert why in refusal(lambda: history.look(linked))
    outside(linked, update(schema.pointers).values(signature=pointer.signature))
    change(linked)


def test_latest_is_absent(linked: Database) -> None:
    """rules H48: a cluster that has a seed has a history"""
    outside(linked, delete(schema.pointers))
    stays(linked, lambda: change(linked), "its pointer is gone")
    assert "its pointer is gone" in refusal(lambda: history.look(linked))


def test_latest_dangles(linked: Database) -> None:
    """rules H48"""
    key = f"transitions/{latest(linked).mark.transition}"
    outside(linked, delete(schema.objects).where(schema.objects.c.key == key))
    stays(linked, lambda: change(linked), "not kept")


def test_a_write_error_leaves_latest_where_it_was(linked: Database) -> None:
    """rules H48, P7: nothing of the change remains, and the next one goes through"""
    before = latest(linked)
    if linked.is_sqlite:
        make = ["CREATE TRIGGER no BEFORE UPDATE ON pointers BEGIN SELECT RAISE(ABORT, 'no'); END"]
        end = ["DROP TRIGGER no"]
    else:
        make = [
            "CREATE FUNCTION no() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'no'; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER no BEFORE UPDATE ON pointers FOR EACH ROW EXECUTE FUNCTION no()",
        ]
        end = ["DROP TRIGGER no ON pointers", "DROP FUNCTION no"]
    outside(linked, *map(text, make))
    rows = contents(linked, "audit", "objects", "allowlist")
    with pytest.raises(Exception, match="no"):
        allow(linked, Node("node-b"))
    outside(linked, *map(text, end))
    assert (latest(linked), contents(linked, "audit", "objects", "allowlist")) == (before, rows)
    allow(linked, Node("node-b"))
    assert (faults(linked), compared(linked)) == ([], [])


def test_latest_is_moved_meanwhile(linked: Database) -> None:
    """rules H9, H38, H48: compare and swap, within the change"""
    other = HISTORY.sign("prod", ZERO)

    def move() -> None:
        with linked.change(actor="root", now=NOW) as transaction:
            transaction.audit("test", "x")
            transaction.run(update(schema.pointers).values(**other._asdict()))

    before = latest(linked)
    assert "another change came first" in refusal(move, Code.CONCURRENT_UPDATE)
    assert latest(linked) == before
    change(linked)


def test_absent_differs_from_empty(linked: Database) -> None:
    """rules H9"""
    one, two = object_store.Pointer("", "", ""), object_store.Pointer("x", "", "")
    with linked.record() as transaction:
        object_store.compare_and_swap(transaction, "test/a", None, one)
        refusal(lambda: object_store.compare_and_swap(transaction, "test/a", None, two), Code.CONFLICT)
        object_store.compare_and_swap(transaction, "test/a", one, two)
        refusal(lambda: object_store.compare_and_swap(transaction, "test/a", one, two), Code.CONFLICT)
        assert object_store.pointer(transaction, "test/a") == two


# ---- whose history it is


def test_a_foreign_seed(linked: Database, second: Database) -> None:
    second.history = LinkedHistory(Seed.generate().history_key)
    assert "another seed" in refusal(lambda: change(second))
    assert "another seed" in refusal(lambda: history.look(second))
    assert faults(second)[0].startswith("the history was signed with another seed")
    change(linked)


def test_without_the_seed_nothing_is_changed(linked: Database, second: Database) -> None:
    """A change that is no link would be a hole."""
    stays(linked, lambda: change(second), "the seed that continues it is not here")
    assert "the seed" in refusal(lambda: history.look(second))


def test_a_history_of_another_cluster(linked: Database) -> None:
    """The pointer is signed for one cluster: a row that was copied from another one's database is none here."""
    outside(linked, update(schema.cluster).values(cluster_id="other"))
    stays(linked, lambda: change(linked), "is not good")


# ---- what was changed from outside


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        (update(schema.cluster).values(authority_epoch=7), "the cluster's row of authority"),
        (update(schema.running_digests).where(schema.running_digests.c.name == "nodes").values(value=b"x"), "nodes"),
        (delete(schema.running_digests).where(schema.running_digests.c.name == "tokens"), "tokens"),
    ],
)
def test_the_next_link_does_not_prove_what_it_did_not_make(linked: Database, statement: object, named: str) -> None:
    outside(linked, statement)
    stays(linked, lambda: change(linked), named)
    assert named in compared(linked)[0]


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        (update(schema.nodes).values(site_id="other"), "nodes"),
        (update(schema.nodes).values(certificate=b"another"), "nodes"),
        (update(schema.tokens).values(used=0, used_by=None), "tokens"),
        (delete(schema.allowlist), "allowlist"),
        (insert(schema.tombstones).values(node_id="x", code="removed", reason="", at=1.0), "tombstones"),
        (insert(schema.scope_versions).values(scope="route_policy", config_version=9), "scope_versions"),
    ],
)
def test_a_row_that_was_changed_from_outside_names_its_table(linked: Database, statement: object, table: str) -> None:
    outside(linked, statement)
    assert compared(linked) == [f"rows of {table} were changed, added or taken away from outside"]


AUDIT = schema.audit


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (update(AUDIT).where(AUDIT.c.action == "join").values(actor="nobody"), "(join node-a by nobody, 2027-01-15"),
        (update(AUDIT).where(AUDIT.c.action == "join").values(at=1.0), "was changed"),
        (delete(AUDIT).where(AUDIT.c.action == "join"), "is missing"),
        (
            insert(AUDIT).values(
                at=NOW, actor="root", action="join", subject="y", outcome="done", before="null", after="null", link=2
            ),
            "was added",
        ),
        (
            insert(AUDIT).values(
                at=NOW, actor="root", action="join", subject="y", outcome="done", before="null", after="null", link=99
            ),
            "of links that are not kept",
        ),
        (update(AUDIT).where(AUDIT.c.action == "join").values(link=2), "moved here from another link"),
        (text("UPDATE audit SET action = CASE action WHEN 'join' THEN 'allow' ELSE 'join' END"), "was changed"),
    ],
)
def test_a_changed_missing_added_or_reordered_audit_row_is_named(
    linked: Database, statement: object, said: str
) -> None:
    """threats: whoever writes to the table, and has no seed"""
    outside(linked, statement)
    assert any(said in fault for fault in faults(linked)), faults(linked)


def test_links_that_are_missing_forked_or_of_another_root(linked: Database) -> None:
    table = schema.transitions
    rows = contents(linked, "transitions")
    with linked.read() as transaction:
        kept = {row.number: row.transition for row in transaction.rows(select(table))}

    def put(number: int, transition: str | None) -> None:
        outside(linked, delete(table).where(table.c.number == number))
        if transition is not None:
            outside(linked, insert(table).values(number=number, transition=transition))

    for number, transition, walked in ((2, None, "missing"), (2, kept[1], "says that it is link 1"), (1, kept[3], "3")):
        put(number, transition)
        assert faults(linked)
        assert walked in refusal(lambda: history_check.walk(linked, LinkMark()))
        put(number, kept[number])
    assert contents(linked, "transitions") == rows
    put(max(kept), None)
    assert "one is missing" in refusal(lambda: change(linked))
    put(max(kept), kept[max(kept)])
    put(max(kept) + 1, kept[1])
    assert "one is missing" in refusal(lambda: change(linked))
    put(max(kept) + 1, None)
    change(linked)


def test_it_is_walked_by_pages_and_goes_on_where_it_was(linked: Database) -> None:
    for _ in range(5):
        change(linked)
    at, pages = LinkMark(), 0
    while (after := history_check.walk(linked, at, most=3)) != at:
        at, pages = after, pages + 1
    assert (at, pages) == (latest(linked).mark, -(-at.number // 3))
    change(linked)
    assert history_check.walk(linked, at, most=3) == latest(linked).mark


def test_a_link_of_very_many_rows_is_read_by_pages(linked: Database) -> None:
    with linked.change(actor="root", now=NOW) as transaction:
        transaction.audit_all([("test", f"row {number}", None, None) for number in range(2_500)])
    part = history_check.verify(linked, most=20)
    assert part.rows < 400
    whole = verified(linked, most=20)
    assert (whole.faults, whole.rows) == ([], len(contents(linked, "audit")["audit"]))
    outside(linked, update(AUDIT).where(AUDIT.c.subject == "row 2000").values(actor="nobody"))
    assert ["of its 2500 audit rows" in fault for fault in faults(linked)] == [True]


# ---- what goes with time


def trim(database: Database, now: float) -> None:
    retention.trim(database, now=now, settings=CoordinatorSettings())


def test_trimming_says_up_to_where(linked: Database) -> None:
    """Whole links from the oldest on; verification begins at the oldest that is kept, and demands that it is said."""
    before = latest(linked).mark.number
    trim(linked, NOW + 366 * DAY)
    part = verified(linked)
    assert (part.oldest, part.faults) == (before, [])
    assert [table for table in ("transitions", "states") for row in contents(linked, "objects")["objects"]
            if table in row].count("states") == 2  # fmt: skip
    change(linked)
    trim(linked, NOW + 367 * DAY)
    assert (faults(linked), compared(linked)) == ([], [])
    oldest = verified(linked).oldest
    forgotten = delete(schema.transitions).where(schema.transitions.c.number <= oldest)
    outside(linked, delete(AUDIT).where(AUDIT.c.link <= oldest), forgotten)
    assert any("no audit row says that they were trimmed" in fault for fault in faults(linked))


def test_rows_of_no_link_are_trimmed_by_their_age(cluster: Database) -> None:
    change(cluster)
    trim(cluster, NOW + 366 * DAY)
    assert len(contents(cluster, "audit")["audit"]) == 1


# ---- a cluster from before, and a database that was put back


def test_a_cluster_without_a_history_goes_on_and_is_carried_over(cluster: Database) -> None:
    admit(cluster, "node-a")
    assert history.look(cluster) is None
    rows = len(contents(cluster, "audit")["audit"])
    cluster.history = FirstLink(HISTORY.key)
    change(cluster, "history.begin")
    refusal(lambda: change(cluster), Code.ALREADY_INITIALISED)
    cluster.history = HISTORY
    part = verified(cluster)
    assert (part.newest, part.rows, part.faults) == (1, rows + 1, [])
    change(cluster)
    assert (faults(cluster), compared(cluster)) == ([], [])


def test_another_history_may_be_begun_over_one_that_was_broken(linked: Database) -> None:
    outside(linked, update(schema.nodes).values(site_id="other"), delete(schema.transitions))
    refusal(lambda: change(linked))
    linked.history = FirstLink(HISTORY.key, anew=True)
    change(linked, "history.begin")
    linked.history = HISTORY
    change(linked)
    assert (latest(linked).mark.number, faults(linked), compared(linked)) == (2, [], [])


def test_what_was_seen_and_is_lacking_is_a_gap(linked: Database) -> None:
    """rules H37: a database that was exchanged under a replica; what was only trimmed is none"""
    seen = [LastSeen(latest(linked).mark, 1)]

    def gap(epoch: int = 1) -> str:
        with linked.read() as transaction:
            return seen[0].gap(transaction, epoch)

    assert gap() == ""
    seen[0] = LastSeen(LinkMark(99, ZERO), 1)
    assert "lacks link 99" in gap()
    assert gap(epoch=2) == ""
    seen[0] = LastSeen(LinkMark(1, "ab" * 32), 1)
    assert "has another link 1" in gap()
    trim(linked, NOW + 366 * DAY)
    assert gap() == ""


def test_a_database_that_was_put_back_stays_whole_and_says_so(linked: Database) -> None:
    """rules K41, P30: nothing of the history keeps the operator from raising the epoch"""
    with linked.change(actor="node:node-a", now=NOW) as transaction:
        transaction.run(update(schema.cluster).values(put_back_epoch=1))
        transaction.audit("restored_backup", "node-a")
    change(linked)
    with linked.change(actor="root", now=NOW) as transaction:
        transaction.run(update(schema.cluster).values(authority_epoch=2))
        transaction.audit("trust_bundle.add", "2")
    part = verified(linked, most=1)
    assert part.faults == []
    assert ["restored from a backup" in part.notes[0], "epoch 2 ended that" in part.notes[1]] == [True, True]


# ---- digests


def test_every_table_that_is_digested_follows_its_rows(linked: Database) -> None:
    """Also what is taken away, and what comes back; the fixture holds each digest against all rows, too."""
    publish(linked, publication(basis(linked), document("route_policy", 1, b"a")))
    publish(linked, publication(basis(linked), document("route_policy", 2, b"b")))
    revocation.revoke(linked, "endpoints", "https://x.example:1", reason="r", actor="root", now=NOW, unknown=True)
    cut_out(linked, "node-a", reason="r", actor="root", now=NOW)
    heartbeats.record(linked, [heartbeat("node-a")], now=NOW)
    trim(linked, NOW + 40 * DAY)
    assert (faults(linked), compared(linked)) == ([], [])


def test_a_statement_that_was_made_once_is_followed_row_by_row(linked: Database) -> None:
    """One that no row is chosen by, one that its own row is no longer chosen by afterwards, and one row twice."""
    table = schema.nodes
    move = update(table).where(table.c.kind == bindparam("was")).values(kind=bindparam("becomes"))
    kinds = [("witness", "data"), ("data", "witness"), ("witness", "data"), ("data", "witness")]
    with linked.change(actor="root", now=NOW) as transaction:
        assert transaction.run(move, [{"was": was, "becomes": becomes} for was, becomes in kinds]) == 3
        transaction.audit("test", "node-a")
    assert (faults(linked), compared(linked)) == ([], [])


def test_what_cannot_be_followed_is_refused(linked: Database) -> None:
    def run(transaction: Transaction) -> None:
        transaction.run(delete(schema.nodes), [{}])

    with linked.record() as transaction, pytest.raises(AssertionError, match="no digest follows"):
        run(transaction)
    with linked.record() as transaction, pytest.raises(AssertionError, match="no digest has seen"):
        transaction.run(insert(schema.tokens), [{"jti": "x"}])


def test_the_manifest_is_not_made_for_nothing(linked: Database) -> None:
    assert set(schema.metadata.tables) >= history_manifest.MADE_FROM
