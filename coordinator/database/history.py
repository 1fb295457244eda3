"""The history of the cluster's state: each change is a link, signed, chained, in the transaction that it describes
(rules H0, H3, H12, H38, H48, P7, P11, P30).

    manifest      who the coordinators are, the trust bundle, the config key in use (history_manifest.py)
    state         what must not go back, as digests; and exactly the audit rows that this link is for
    transition    {manifest, state, previous, number}: content-addressed, like the two others
    latest        the one pointer, `transitions/latest`, signed with the history key, moved by compare and swap

Whoever writes to the database and has no seed can therefore neither change nor take away nor add anything that the
digests cover without it being found: here before the next link, at a start by `history_check.walk`, and row by row by
`holdfastctl audit verify`. What is found is `untrusted_history`: nothing is changed or signed any more.

A database that was put back from an older copy has a history that is whole, and only shorter: nothing of it is found
here, but by what nodes hold (restored_backup.py), and by replicas that have seen more of it (continuity.py). So the
epoch can be raised over it, and the chain goes on from where the copy ends.

Audit rows of reports (`Database.record`) are written outside of the lock, and have no link at first: the next change
takes them along, or the keeper does within a minute.

Rejected:

- A signature for each link: the chain from the one signed pointer proves as much, and is verified in a tenth of the
  time.
- A hash over a table at each link (running_digests.py has why), or the rows themselves in the state: a link would cost
  what the cluster holds, not what the change changed.
- The audit log alone, each row with the hash of the one before: reports would wait for each other, and rows of the
  tables themselves could be changed beside it.
- One object for transition and state: a manifest or a state could not be told by its hash, which is how coordinators
  will tell each other where they stand.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import Code, Refused
from coordinator.database import history_manifest, object_store, own_entry, running_digests, schema
from coordinator.database.continuity import ZERO, Continuity, LastSeen, LinkMark, oldest
from coordinator.database.database import NO_SEED, NO_SEED_REMEDY, Database, Transaction
from coordinator.database.object_store import Pointer
from coordinator.database.own_entry import OwnEntry
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical
from snapshot.signature import pae, verify_signature

LATEST = "transitions/latest"
TRANSITIONS, STATES, MANIFESTS = "transitions", "states", "manifests"
NAMED_ROWS = 32  # of a link's audit rows, as many are named one by one
STRAYS = 10_000  # audit rows without a link that one link takes along
REMEDY = "holdfastctl audit verify says what differs; operating.md, 'The history', what to do"
BEGIN = "holdfastctl coordinators begin-history"
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode  # in C: a row is no document
_ROWS = 1_000  # read at a time
_NAMED = 500  # in one statement

# Asked in every change: making a statement costs as much as running it.
_NAMES = (
    *("cluster_id", "authority_epoch", "revision", "state_id"),
    *("revocations_version", "last_issued_at", "put_back_epoch"),
)
_CLUSTER = select(*(schema.cluster.c[name] for name in _NAMES))
_AUDIT = schema.audit.c
_STRAY = select(_AUDIT.audit_id).where(_AUDIT.link.is_(None)).order_by(_AUDIT.audit_id)
# Made once: making a statement costs as much as running it, and each change is a link.
_LINKED = (
    select(schema.audit)
    .where(_AUDIT.link == bindparam("number"), _AUDIT.audit_id > bindparam("after"))
    .order_by(_AUDIT.audit_id)
    .limit(_ROWS)
)
_NEAR = (
    select(schema.transitions)
    .where(schema.transitions.c.number >= bindparam("least"))
    .order_by(schema.transitions.c.number)
    .limit(3)
)
_FOLLOW = insert(schema.transitions)
_TAKE_ALL = update(schema.audit).where(_AUDIT.link.is_(None)).values(link=bindparam("number"))
_TAKE_FIRST = (
    update(schema.audit)
    .where(_AUDIT.audit_id.in_(_STRAY.limit(STRAYS).scalar_subquery()))
    .values(link=bindparam("number"))
)


def distrust(detail: str) -> Refused:
    return Refused(Code.UNTRUSTED_HISTORY, detail, remedy=REMEDY)


@dataclass(frozen=True)
class Transition:
    manifest: str
    state: str
    previous: str
    number: int

    def to_bytes(self) -> bytes:
        return canonical.dumps(vars(self))


def parse_transition(data: bytes) -> Transition:
    """`untrusted_history` for anything else."""
    try:
        value = canonical.loads(data)
    except canonical.NotCanonical:
        value = None
    if not isinstance(value, dict) or value.keys() != {"manifest", "state", "previous", "number"}:
        raise distrust("an object of the history is no transition")
    if type(value["number"]) is not int or not all(isinstance(value[name], str) for name in ("manifest", "state")):
        raise distrust("a transition is out of form")
    return Transition(str(value["manifest"]), str(value["state"]), str(value["previous"]), value["number"])


@dataclass(frozen=True)
class Latest:
    """The newest link, with all that it says; believed, since the pointer's signature and each hash were checked."""

    pointer: Pointer
    mark: LinkMark
    transition: Transition
    state: Mapping[str, Any]
    cluster: Mapping[str, object] | None  # as its row is now


@dataclass(frozen=True)
class LinkedHistory:
    """Links the changes of a database. `key`: derived from the cluster's seed (keys/seed.py). `own`: of the coordinator
    that works here; None for a command that an operator runs beside it.
    """

    key: SigningKey
    own: OwnEntry | None = None
    continuity: Continuity | None = None

    @property
    def known_state(self) -> LastSeen | None:
        return None if self.continuity is None else self.continuity.seen

    def latest(self, transaction: Transaction) -> Latest:
        """`untrusted_history` where it is absent, dangles, was changed, or is not signed by our key."""
        pointer = object_store.pointer(transaction, LATEST)
        if pointer is None:
            detail = "a seed is here, but the database has no history: its pointer is gone, or it was never begun"
            raise Refused(Code.UNTRUSTED_HISTORY, detail, remedy=f"restore a backup; or, if it never was: {BEGIN}")
        cluster = _cluster(transaction)
        self._check_signature("" if cluster is None else str(cluster["cluster_id"]), pointer)
        transition = parse_transition(get(transaction, TRANSITIONS, pointer.value))
        mark = LinkMark(transition.number, pointer.value)
        _check_order(transaction, mark, transition.previous)
        return Latest(pointer, mark, transition, read_state(transaction, transition.state), cluster)

    def begin(self, transaction: Transaction, digests: Mapping[str, bytes]) -> "NextLink":
        """What the tables say must be what the newest link says of them, or it would be believed from now on."""
        if _cluster(transaction) is None and object_store.pointer(transaction, LATEST) is None:
            return NextLink(self, None)  # `init`: nothing is there that could be proven
        latest = self.latest(transaction)
        if different := differing(latest.state, latest.cluster, digests):
            raise distrust(f"{different[0]} is not what link {latest.mark.number} proves: it was changed from outside")
        self.check_own(transaction, latest)
        return NextLink(self, latest)

    def check_own(self, transaction: Transaction, latest: Latest) -> None:
        """`not_in_manifest` once the newest manifest does not name the coordinator that works here."""
        manifest = latest.transition.manifest
        if self.own is not None and not self.own.is_settled(manifest):
            self.own.check(transaction, manifest, get(transaction, MANIFESTS, manifest))

    def sign(self, cluster_id: str, value: str) -> Pointer:
        signature = self.key.sign(_message_of(cluster_id, value))
        return Pointer(value, base64.b64encode(signature).decode(), self.key.key_id)

    def _check_signature(self, cluster_id: str, pointer: Pointer) -> None:
        try:
            signature = base64.b64decode(pointer.signature, validate=True)
        except binascii.Error:
            signature = b""
        if not signature:
            raise distrust("the history's pointer has no signature")
        message = _message_of(cluster_id, pointer.value)
        if verify_signature(self.key.algorithm, self.key.public_key, message, signature):
            return
        if pointer.signer != self.key.key_id:
            remedy = "put the seed of this cluster beside the config keys, and restart; or restore a backup with keys"
            raise Refused(
                Code.UNTRUSTED_HISTORY, f"the history was signed with another seed, by {pointer.signer}", remedy=remedy
            )
        raise distrust("the signature of the history's pointer is not good")


@dataclass(frozen=True)
class FirstLink:
    """Begins the history of a cluster that has none, over the state as it stands and all audit rows that there are.

    `anew`: another history, in the place of one that is given up.
    """

    key: SigningKey
    anew: bool = False
    known_state: None = None

    def begin(self, transaction: Transaction, _digests: Mapping[str, bytes]) -> "NextLink":
        """The digests that are kept may be what is wrong: whoever opens the change makes them anew."""
        if object_store.pointer(transaction, LATEST) is not None and not self.anew:
            raise Refused(
                Code.ALREADY_INITIALISED, "this cluster has a signed history", remedy="holdfastctl audit verify"
            )
        forget_all(transaction)
        return NextLink(LinkedHistory(self.key), None, is_anew=True)


@dataclass
class NextLink:
    """The link that an open change is going to be. `is_anew`: it takes along all audit rows without a link, and not
    STRAYS of them.
    """

    history: LinkedHistory
    after: Latest | None
    is_anew: bool = False
    _made: LinkMark | None = field(default=None, init=False)
    _authority_epoch: int = field(default=0, init=False)

    @property
    def number(self) -> int:
        return 1 if self.after is None else self.after.mark.number + 1

    def add(self, transaction: Transaction, digests: Mapping[str, bytes]) -> None:
        """`concurrent_update` where somebody has moved the pointer: then nothing of the change remains (rules H38)."""
        cluster = _cluster(transaction)
        if cluster is None:
            raise AssertionError("a link is of a cluster")
        transaction.run(_TAKE_ALL if self.is_anew else _TAKE_FIRST, [{"number": self.number}])
        shown = {name: running_digests.text_of(value) for name, value in digests.items()}
        state = {"audit": describe_rows(linked_rows(transaction, self.number)), "cluster": cluster, "digests": shown}
        manifest = self._manifest(transaction)
        self._check_mesh_key(transaction, manifest)
        transition = Transition(
            manifest=manifest,
            state=_put(transaction, STATES, canonical.dumps(state)),
            previous=ZERO if self.after is None else self.after.mark.transition,
            number=self.number,
        )
        value = _put(transaction, TRANSITIONS, transition.to_bytes())
        transaction.run(_FOLLOW, [{"number": self.number, "transition": value}])
        before = None if self.after is None else self.after.pointer
        try:
            object_store.compare_and_swap(transaction, LATEST, before, self.history.sign(cluster["cluster_id"], value))
        except Refused as refused:
            detail = "another change came first: the history was moved on"
            raise Refused(Code.CONCURRENT_UPDATE, detail, remedy="repeat it") from refused
        epoch = int(cluster["authority_epoch"])
        if not self._gap(transaction, epoch):
            self._made, self._authority_epoch = LinkMark(self.number, value), epoch

    def _check_mesh_key(self, transaction: Transaction, manifest: str) -> None:
        """`recovery_mode` for a change of one that lacks the mesh key, unless it leads to a manifest whose key is here:
        a set that was made here, or keys that are listed now.
        """
        own = self.history.own
        if own is None or not own.is_without_mesh_key:
            return
        if own.lacks(own_entry.mesh_key_of(get(transaction, MANIFESTS, manifest))):
            own.check_mesh_key()

    def keep(self) -> None:
        continuity = self.history.continuity
        if continuity is not None and self._made is not None:
            continuity.note(self._made, self._authority_epoch)

    def _gap(self, transaction: Transaction, authority_epoch: int) -> str:
        """What is made over a database that has gone back is not what was seen."""
        seen = transaction.known_state
        if seen is None or (self.after is not None and self.after.mark == getattr(seen, "mark", None)):
            return ""
        return seen.gap(transaction, authority_epoch)

    def _manifest(self, transaction: Transaction) -> str:
        is_told = transaction.named_owners is not None
        if self.after is not None and not is_told and not transaction.folding.touched & history_manifest.MADE_FROM:
            return self.after.transition.manifest
        before = None if self.after is None else get(transaction, MANIFESTS, self.after.transition.manifest)
        return _put(transaction, MANIFESTS, history_manifest.follow(transaction, before))


def look(database: Database) -> LinkMark | None:
    """The newest link; None where no history was begun. Refused where it cannot be believed, or its manifest does not
    name the coordinator that looks.
    """
    with database.read() as transaction:
        pointer = object_store.pointer(transaction, LATEST)
        if isinstance(database.history, LinkedHistory):
            latest = database.history.latest(transaction)
            database.history.check_own(transaction, latest)
            if database.history.own is not None:
                database.history.own.check_mesh_key()
            return latest.mark
    if pointer is not None and database.history is not None:
        own_entry.refuse_in_recovery(own_entry.NO_SEED)
    if pointer is not None:
        raise Refused(Code.UNTRUSTED_HISTORY, NO_SEED, remedy=NO_SEED_REMEDY)
    return None


def newest_manifest(database: Database) -> tuple[int, str]:
    """The number of the newest link, and the hash of its manifest; 0 and nothing where there is none to be believed."""
    if not isinstance(database.history, LinkedHistory):
        return 0, ""
    with database.read() as transaction:
        try:
            latest = database.history.latest(transaction)
        except Refused:
            return 0, ""
    return latest.mark.number, latest.transition.manifest


def describe(database: Database, fault: str) -> str:
    """How it stands, for people. `fault`: what is known of it already, or nothing."""
    if fault:
        return fault
    try:
        newest = look(database)
    except Refused as refused:
        return str(refused)
    return f"good, {newest.number} links" if newest else f"none: changes are not proven ({BEGIN})"


def link_strays(database: Database, *, now: float) -> bool:
    """Give audit rows of reports their link; whether there were any."""
    with database.read() as transaction:
        if database.history is None or transaction.row(_STRAY.limit(1)) is None:
            return False
    with database.change(actor="coordinator", now=now, after_move=True) as transaction:
        transaction.audited = True  # by the rows that it takes along
    return True


# ---- what a state says


def differing(
    state: Mapping[str, Any], cluster: Mapping[str, object] | None, digests: Mapping[str, bytes]
) -> list[str]:
    """What of the authority is not as this state says, in words."""
    found = [] if state["cluster"] == cluster else ["the cluster's row of authority"]
    kept = {name: running_digests.text_of(value) for name, value in digests.items()}
    return found + [
        f"the running digest of {name}" for name, said in state["digests"].items() if kept.get(name) != said
    ]


def describe_rows(rows: Iterator[Row[Any]]) -> dict[str, object]:
    """Of the audit rows of one link, in order: a chain of hashes over all, and the first ones by name."""
    digest, named, first, last, count = b"", [], 0, 0, 0
    for row in rows:
        text = row_text(row)
        digest = fold_row(digest, text)
        if count < NAMED_ROWS:
            named.append([row.audit_id, row_name(text)])
        first, last, count = first or row.audit_id, row.audit_id, count + 1
    return {"count": count, "digest": digest.hex(), "first": first, "last": last, "rows": named}


def fold_row(digest: bytes, text: bytes) -> bytes:
    return hashlib.sha256(digest + text).digest()


def row_text(row: Row[Any]) -> bytes:
    said = (row.audit_id, row.at, row.actor, row.action, row.subject, row.outcome, row.before, row.after)
    return _write(said).encode()


def row_name(text: bytes) -> str:
    """Enough to say which row was changed; the digest is what proves it."""
    return hashlib.sha256(text).hexdigest()[:16]


def linked_rows(transaction: Transaction, number: int, after: int = 0) -> Iterator[Row[Any]]:
    """The audit rows of a link beyond one of them, in order, never all at once."""
    while True:
        rows = transaction.rows(_LINKED, {"number": number, "after": after})
        yield from rows
        if len(rows) < _ROWS:
            return
        after = rows[-1].audit_id


# ---- where things are


def get(transaction: Transaction, kind: str, digest: str) -> bytes:
    """`untrusted_history` where it is gone, or another one."""
    try:
        return object_store.get(transaction, f"{kind}/{digest}")
    except Refused as refused:
        raise distrust(f"the history names an object that is not kept: {refused.detail}") from refused


def read_state(transaction: Transaction, digest: str) -> Mapping[str, Any]:
    value = canonical.loads(get(transaction, STATES, digest))
    if not isinstance(value, dict) or value.keys() != {"audit", "cluster", "digests"}:
        raise distrust("an object of the history is no state")
    return value


def forget_links(transaction: Transaction, last: int) -> None:
    """Transitions and states of the links up to this one. Manifests stay: there are few, and many links share one."""
    table = schema.transitions
    named = [row.transition for row in transaction.stream(select(table.c.transition).where(table.c.number <= last))]
    for start in range(0, len(named), _NAMED):
        keys = [f"{TRANSITIONS}/{digest}" for digest in named[start : start + _NAMED]]
        kept = schema.objects.c
        rows = transaction.rows(select(kept.value).where(kept.key.in_(keys)))
        keys += [f"{STATES}/{parse_transition(bytes(row.value)).state}" for row in rows]
        transaction.run(delete(schema.objects).where(kept.key.in_(keys)))


def forget_all(transaction: Transaction) -> None:
    """Pointer, links and objects, and which audit row is of which link."""
    for table in (schema.pointers, schema.transitions):
        transaction.run(delete(table))
    for kind in (TRANSITIONS, STATES, MANIFESTS):
        transaction.run(delete(schema.objects).where(schema.objects.c.key.like(f"{kind}/%")))
    transaction.run(update(schema.audit).values(link=None))


def _check_order(transaction: Transaction, mark: LinkMark, previous: str) -> None:
    """Its place, the one before it, and nothing after it."""
    found = {row.number: row.transition for row in transaction.rows(_NEAR, {"least": mark.number - 1})}
    if found.get(mark.number) != mark.transition or max(found) > mark.number:
        raise distrust(f"the history's pointer is at link {mark.number}, and its links are others: one is missing")
    before = ZERO if mark.number == 1 else found.get(mark.number - 1)
    if before is None and oldest(transaction) == mark.number:
        return  # trimmed up to here
    if before != previous:
        raise distrust(f"link {mark.number} does not follow the one before it")


def _cluster(transaction: Transaction) -> dict[str, Any] | None:
    row = transaction.row(_CLUSTER)
    return None if row is None else dict(zip(_NAMES, row, strict=True))


def _put(transaction: Transaction, kind: str, value: bytes) -> str:
    (key,) = object_store.put_all(transaction, kind, [value])
    return key.partition("/")[2]


def _message_of(cluster_id: str, value: str) -> bytes:
    return pae("history", canonical.dumps({"cluster_id": cluster_id, "key": LATEST, "value": value}))
