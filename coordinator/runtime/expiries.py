"""Everything of a coordinator that ends, read from where it stands: with its end, what happens then, what renews it.

The trust bundle, each key in it, what this replica signs with, its certificate and CA, operators' certificates, join
tokens, the newest backup, members' certificates. When an end is said is snapshot/ending.py's to decide. A further
replica's certificate and backup are its own to tell: the database knows the certificate's hash alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import select

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import TRUST_BUNDLE, HeadEntry
from coordinator.database.member_ends import MemberEnd
from coordinator.membership import trimming
from coordinator.publishing import published_state
from coordinator.replicas import backup_record
from coordinator.trust import request_builder
from coordinator.trust import rotation as rotations
from coordinator.trust.bundle_content import Trust
from coordinator.trust.rotation import ADD, RETIRE, RotationStep
from snapshot.bundle import ACTIVE, CONFIG, RETIRING, ROOT, KeyRecord, TrustBundle
from snapshot.ending import SHARE, Thing, in_order, short
from snapshot.identifiers import format_time
from wire.certificate import RENEWAL_SHARE, Certificate

TOKEN, BACKUP, MEMBER, UNSEEN = "join_token", "backup", "node_certificate", "unseen_member"
RENEW_BUNDLE = "holdfastctl trust export-request --request renew.json"


@dataclass(frozen=True)
class OwnCredentials:
    """What this coordinator has of its own: `keys` are the ids of the config keys that it holds."""

    coordinator_id: str
    keys: Sequence[str]
    certificate: Certificate
    authorities: Sequence[Certificate] = field(default_factory=tuple)


def read(
    database: Database, replica: OwnCredentials, members: Sequence[MemberEnd], settings: CoordinatorSettings, now: float
) -> list[Thing]:
    """`members`: of the living (member_ends.py)."""
    with database.read() as transaction:
        found = published_state.latest_bundle(transaction)
        things = [
            *(_of_trust(*found, replica, settings, now) if found else ()),
            *_of_certificates(replica),
            *_of_operators(transaction),
            *_of_tokens(transaction),
            *_of_backup(transaction, replica, settings),
            *_of_unseen(transaction, settings, now),
        ]
    return [*things, *_of_members(members)]


def in_short(things: Iterable[Thing]) -> list[Thing]:
    """Without join tokens, which come and go; of all members' certificates the one that ends first."""
    members = in_order(thing for thing in things if thing.what == MEMBER)
    others = in_order(thing for thing in things if thing.what not in (MEMBER, TOKEN))
    return [*others, *(replace(member, name=f"first of {len(members)}") for member in members[:1])]


# ---- trust


def _of_trust(
    entry: HeadEntry, bundle: TrustBundle, replica: OwnCredentials, settings: CoordinatorSettings, now: float
) -> Iterator[Thing]:
    yield Thing(
        TRUST_BUNDLE,
        str(entry.config_version),
        bundle.issued_at,
        bundle.expires_at,
        "nothing can be published, and nodes believe nothing new",
        RENEW_BUNDLE,
    )
    trust = Trust.of(bundle)
    for step in rotations.steps(trust, request_builder.dates(settings), now):
        record = trust.keys[step.key_id]
        if record.status in (ACTIVE, RETIRING):
            yield _key(record, trust, _next(step, now))
    yield _signing(bundle, replica)


def _key(record: KeyRecord, trust: Trust, remedy: str) -> Thing:
    is_planned = record.status == RETIRING
    then = _without(record, trust)
    if is_planned:
        then = "as planned: what it signed is believed no more"
    what = f"{record.purpose}_key"
    return Thing(what, record.key_id, record.not_before, record.not_after, then, remedy, is_planned=is_planned)


def _without(record: KeyRecord, trust: Trust) -> str:
    """What is left when this key is over, and all that end before it."""
    active = [key for key in trust.active(record.purpose) if key.not_after > record.not_after]
    needed = trust.thresholds[record.purpose]
    if len(active) >= needed:
        return f"its signatures count no more; {len(active)} later {record.purpose} keys sign, {needed} must"
    if record.purpose == ROOT:
        return "too few root keys are left to sign a trust bundle: nodes would have to be enrolled anew"
    return "nothing can be published: no config key is left that nodes believe"


def _next(step: RotationStep, now: float) -> str:
    """The command; for one that would be refused today, with the day from which it is not."""
    if step.action == ADD:
        return "holdfastctl rotate add" + (f" --purpose {ROOT}" if step.purpose == ROOT else "")
    command = f"holdfastctl rotate {'retire' if step.action == RETIRE else 'remove'} {short(step.key_id)}"
    return command if step.due is None or step.is_due(now) else f"{command}, from {format_time(step.due)}"


def _signing(bundle: TrustBundle, replica: OwnCredentials) -> Thing:
    """Until when the config keys of this replica are enough; since the bundle that made them too few, if they are."""
    held = [key for key in Trust.of(bundle).active(CONFIG) if key.key_id in replica.keys]
    needed = bundle.thresholds[CONFIG]
    last = sorted(held, key=lambda each: each.not_after, reverse=True)[needed - 1 : needed]
    begins, ends = (last[0].not_before, last[0].not_after) if last else (bundle.issued_at, bundle.issued_at)
    then = "this coordinator can sign nothing that nodes believe"
    remedy = "holdfastctl rotate add, then systemctl reload holdfast-coordinator"
    return Thing("signing", replica.coordinator_id, begins, ends, then, remedy)


# ---- certificates


def _of_certificates(replica: OwnCredentials) -> Iterator[Thing]:
    own = replica.certificate
    remedy = "holdfastctl coordinators certificate, then systemctl reload holdfast-coordinator"
    then = "no node and no operator from afar is answered"
    yield Thing("coordinator_certificate", replica.coordinator_id, own.not_before, own.not_after, then, remedy)
    for authority in replica.authorities:
        yield Thing(
            "coordinator_ca",
            authority.fingerprint,
            authority.not_before,
            authority.not_after,
            "nodes believe no certificate of it, so they reach no coordinator",
            "holdfastctl coordinators ca begin --to DIRECTORY: nodes go on (docs/operating.md)",
        )


def _of_operators(transaction: Transaction) -> Iterator[Thing]:
    table = schema.operators
    for row in transaction.rows(select(table.c.name, table.c.certificate, table.c.expires_at)):
        begins = Certificate.read(bytes(row.certificate)).not_before
        remedy = f"holdfastctl operators key {row.name} --out DIRECTORY, then operators remove and add"
        then = "the operator is refused: certificate_expired"
        yield Thing("operator_certificate", row.name, begins, row.expires_at, then, remedy)


def _of_tokens(transaction: Transaction) -> Iterator[Thing]:
    """Those that still let somebody in."""
    table = schema.tokens
    for row in transaction.rows(select(table).where(table.c.revoked_at.is_(None), table.c.used < table.c.uses)):
        remedy = "holdfastctl tokens create" + (f" --node {row.node_id}" if row.node_id else "")
        then = f"nobody joins with it: for {row.node_id or 'any allowed node'} at {row.site_id}"
        yield Thing(TOKEN, row.jti, row.not_before, row.expires_at, then, remedy, is_planned=True)


def _of_members(members: Sequence[MemberEnd]) -> Iterator[Thing]:
    for member in members:
        yield Thing(
            MEMBER,
            member.node_id,
            member.begins,
            member.ends,
            "the node is not answered any more, and has to join anew",
            f"it renews itself: see holdfastctl nodes events {member.node_id}",
            renews_from=member.begins + RENEWAL_SHARE * (member.ends - member.begins),
        )


def _of_unseen(transaction: Transaction, settings: CoordinatorSettings, now: float) -> Iterator[Thing]:
    """The membership of whom a trim takes next, a week before; the others are in `nodes trim`."""
    planned = trimming.plan_in(transaction, now, settings)
    unseen = (*planned.due, *planned.soon)
    if not unseen or not settings.trim_members:
        return
    first = unseen[0]
    name = first.node_id if len(unseen) == 1 else f"{first.node_id} and {len(unseen) - 1} more"
    then = "nobody has seen it: it is removed, and has to be let in anew"
    remedy = f"holdfastctl nodes trim shows whom; {planned.held_back or 'start the node, or let it go'}"
    begins = first.removed_at - SHARE * trimming.WARN_S
    yield Thing(UNSEEN, name, begins, first.removed_at, then, remedy)


# ---- backups


def _of_backup(transaction: Transaction, replica: OwnCredentials, settings: CoordinatorSettings) -> Iterator[Thing]:
    """A backup has no end of its own; this is when it is older than it may be. The timer makes the next one."""
    if not settings.backup_age_s:
        return
    newest = backup_record.newest(transaction, replica.coordinator_id)
    begins = newest.at if newest else float(transaction.number(select(schema.cluster.c.initialised_at)))
    yield Thing(
        BACKUP,
        newest.name if newest else "none was made yet",
        begins,
        begins + settings.backup_age_s,
        "what was decided since then is lost with this machine",
        "holdfastctl backup --to DIRECTORY, by holdfast-backup.timer",
        renews_from=begins + settings.backup_age_s / 3,
    )
