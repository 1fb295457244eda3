"""From the present trust bundle and what the operator wishes to the next one (format.md 8; rules S36, S40). Pure.

    next_trust(present, wishes, moment)     the content of bundle N+1, or Refused with the remedy
    signers_of(present, following, now)     the root keys that its envelope lists
    first_trust(...)                        the content of bundle 1

The life of a key, a bundle each: it is added and both sign (`Add`); the old one is `retiring` and signs no more, while
what it signed stays good for the time of *key rollout*, which its `not_after` then says (`Retire`); it goes (`Remove`).
A key in wrong hands is `revoked` at once (`Revoke`). A bundle that could not be followed by another is never made.

The keys that come out are read by `snapshot/bundle.py`, as a node will read them, so that this module does not make
what nodes refuse. What it adds are the rules of the *step*, from this bundle to that one.

Example, a config key that is to be replaced: `add` makes bundle 4, in which the old and the new key sign. `retire`
makes bundle 5: the old key signs nothing any more, what it has signed stays good until its `not_after`, time enough
for every document to be renewed. `remove` makes bundle 6. Each step is a ceremony of its own with the root keys;
`holdfastctl rotate` leads through them (`rotation.py`).

Example, a key that was stolen: `revoke` makes bundle 4 in one step. Everything that it alone has signed is refused by
each node that has bundle 4, so the coordinators sign it anew with another; `raise_epoch` in the same bundle ends what
the thief may have signed under higher versions.

A new root must stand in a bundle before it signs one alone: nodes follow bundles one by one, and each judges the next
by the roots that it has.

Rejected:

- Wishes that are applied in any order and repaired afterwards: they are a fold from the left, and the first that is at
  odds with what stands there is refused by name, with its remedy.
- Editing the bundle as a document: what is dangerous about it is the step, which a file does not show.
- A root key in the coordinator that does all of it at night: docs/adr/0010.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NoReturn, Protocol

from coordinator.base.refusal import Code, Refused
from coordinator.trust.bundle_content import CATEGORIES, CONFIG_SCOPES, Trust
from snapshot import bundle as bundles
from snapshot.bundle import ACTIVE, CONFIG, RETIRING, REVOKED, ROOT, KeyRecord, threshold_of
from snapshot.identifiers import MAX_INTEGER, format_time
from snapshot.limits import DEFAULT
from snapshot.manifest import Revocations
from snapshot.reasons import Rejected
from snapshot.signature import key_id

BACKDATED_S = 300  # rules, Numbers: clock skew. A node whose clock is behind ours takes a new key at once.
MOST_SIGNERS = 16  # format.md 10
MOST_ROOTS = MOST_SIGNERS // 2  # so that all of them can be replaced in one bundle


@dataclass(frozen=True)
class CeremonyMoment:
    """When and where. `present` is None for the first bundle; `former`: keys that have left the bundle before."""

    cluster_id: str
    now: int
    key_rollout_s: int
    present: Trust | None = None
    former: frozenset[str] = field(default_factory=frozenset)

    @property
    def key_start(self) -> int:
        """From when a new key is good: later than every key of the present bundle, whose age tells which one follows
        which (rotation.py), and two bundles may be of one second. Back enough all the same that nobody waits for it.
        """
        present = self.present.keys.values() if self.present else ()
        latest = max((record.not_before for record in present), default=0)
        return max(self.now - BACKDATED_S, min(self.now, latest + 1))


class Wish(Protocol):
    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        """The trust with this wish carried out; Refused where it is at odds with what stands there."""


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key: SubjectPublicKeyInfo, DER."""

    algorithm: str
    public_key: bytes

    @property
    def key_id(self) -> str:
        return key_id(self.public_key)


@dataclass(frozen=True)
class Add:
    key: PublicKey
    purpose: str
    not_after: int  # Unix seconds
    scope_types: tuple[str, ...] = CONFIG_SCOPES  # of a config key

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        new = self.key.key_id
        if new in trust.keys:
            _refuse(f"{new} is in the bundle already, {trust.keys[new].status}", "add another key")
        if new in moment.former:
            _refuse(f"{new} has left the bundle before", "make a new key: one that has left does not come back")
        if self.not_after <= moment.now:
            _refuse(f"{new} would be over at {format_time(self.not_after)}", "give it a later end")
        unknown = sorted(set(self.scope_types) - set(CONFIG_SCOPES))
        if unknown:
            _refuse(f"config keys do not sign {unknown[0]}", f"choose from {', '.join(CONFIG_SCOPES)}")
        scopes = tuple(sorted(set(self.scope_types))) if self.purpose == CONFIG else ()
        times = {"not_before": moment.key_start, "not_after": self.not_after}
        about = {"purpose": self.purpose, "cluster_id": moment.cluster_id, "scope_types": scopes, "status": ACTIVE}
        record = KeyRecord(new, self.key.algorithm, self.key.public_key, **about, **times)  # type: ignore[arg-type]
        return _with_key(trust, record)


@dataclass(frozen=True)
class Retire:
    """From the next bundle on it signs nothing; what it has signed stays good for the time of key rollout.

    `early`: also before its date, which rotation.py gives.
    """

    key_id: str
    early: bool = False

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        record = _known_key(trust, self.key_id)
        if record.status != ACTIVE:
            _refuse(f"{self.key_id} is {record.status} already", "`rotate status` shows what comes next")
        end = min(record.not_after, moment.now + moment.key_rollout_s)
        after = _with_key(trust, replace(record, status=RETIRING, not_after=end))
        if record.purpose == CONFIG:
            _successor_was_announced(after, record, moment)
        return after


@dataclass(frozen=True)
class Remove:
    """A key that nothing needs any more leaves the bundle."""

    key_id: str

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        record = _known_key(trust, self.key_id)
        if record.status == ACTIVE and record.not_after > moment.now:
            _refuse(f"{self.key_id} is active", "retire it first, and remove it when its rollout is over")
        if record.not_after > moment.now:
            _refuse(f"{self.key_id} is {record.status} until {format_time(record.not_after)}", "remove it after that")
        return replace(trust, keys={name: key for name, key in trust.keys.items() if name != self.key_id})


@dataclass(frozen=True)
class Revoke:
    """A key in wrong hands: nothing that it signed is good from now on."""

    key_id: str

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        record = _known_key(trust, self.key_id)
        if record.status == REVOKED:
            _refuse(f"{self.key_id} is revoked already", "nothing is left to do")
        return _with_key(trust, replace(record, status=REVOKED))


@dataclass(frozen=True)
class Threshold:
    purpose: str
    number: int

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        if self.number < 1:
            _refuse(f"a threshold of {self.number}", "ask for at least 1 signature")
        return replace(trust, thresholds={**trust.thresholds, self.purpose: self.number})


@dataclass(frozen=True)
class RaiseEpoch:
    """All that was published gets a new epoch: the answer to a stolen config key, and to a database restored."""

    to: int | None = None  # one more than the present where it is None

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        epoch = trust.authority_epoch + 1 if self.to is None else self.to
        if not trust.authority_epoch < epoch <= MAX_INTEGER:
            _refuse(f"epoch {epoch} is not above {trust.authority_epoch}", "an epoch only goes up")
        return replace(trust, authority_epoch=epoch)


@dataclass(frozen=True)
class Carry:
    """What heads have revoked since the present bundle; config keys among it become `revoked` (rules K54)."""

    revocations: Revocations

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        revoked = {
            name: replace(record, status=REVOKED)
            for name, record in trust.keys.items()
            if name in self.revocations.key_ids and record.purpose == CONFIG
        }
        named = {name: getattr(trust.revocations, name) | getattr(self.revocations, name) for name in CATEGORIES}
        return replace(trust, keys={**trust.keys, **revoked}, revocations=Revocations(**named))


@dataclass(frozen=True)
class Restore:
    """A node that was let in again, or what was revoked by mistake."""

    category: str
    value: str

    def grant(self, trust: Trust, moment: CeremonyMoment) -> Trust:
        if self.category not in CATEGORIES:
            _refuse(f"{self.category} cannot be restored", f"choose from {', '.join(CATEGORIES)}; a key is made anew")
        held = getattr(trust.revocations, self.category)
        if self.value not in held:
            _refuse(f"the bundle does not revoke {self.category} {self.value}", "`trust show` lists what it revokes")
        return replace(trust, revocations=replace(trust.revocations, **{self.category: held - {self.value}}))


def first_trust(adds: Sequence[Add], root_threshold: int, moment: CeremonyMoment) -> Trust:
    """Bundle 1, of these keys."""
    return next_trust(Trust({}, {ROOT: root_threshold, CONFIG: 1}, 1, Revocations()), adds, moment)


def next_trust(present: Trust, wishes: Sequence[Wish], moment: CeremonyMoment) -> Trust:
    """The wishes in their order, one bundle for all of them. Without a wish: the same again, for another lifetime."""
    after = reduce(lambda trust, wish: wish.grant(trust, moment), wishes, present)
    _is_well_formed(after)
    _can_be_followed(after, moment.now)
    _can_be_signed_for(after, moment.now)
    if moment.present is not None:
        signers_of(moment.present, after, moment.now)
    return after


def signers_of(present: Trust | None, following: Trust, now: int) -> tuple[str, ...]:
    """The root keys that may sign the next bundle, those of the present one first: its threshold counts, and that of
    the next one itself. Never one that is retiring, which the present bundle says (rules S40).
    """
    old = () if present is None else tuple(record.key_id for record in present.active(ROOT, now))
    new = tuple(record.key_id for record in following.active(ROOT, now))
    if present is not None and len(old) < present.thresholds[ROOT]:
        _refuse(
            f"{len(old)} root keys of the present bundle may still sign, {present.thresholds[ROOT]} are needed",
            "no bundle can follow: enrol the nodes again under new roots",
        )
    listed = tuple(dict.fromkeys((*old, *new)))
    if len(listed) > MOST_SIGNERS:
        _refuse(f"{len(listed)} root keys would be listed", f"a document has at most {MOST_SIGNERS} signers")
    return listed


@dataclass(frozen=True)
class Missing:
    """How many signatures the next bundle still needs: of keys of the present one, and of its own."""

    of_present: int
    of_next: int


def missing(present: Trust | None, following: Trust, signed: frozenset[str], now: int) -> Missing:
    """A key that the next bundle retires counts for the present one alone: a node that comes back when it is long over
    still finds the next bundle's own threshold met.
    """
    new = len(signed & {record.key_id for record in following.active(ROOT, now)})
    old = len(signed & {record.key_id for record in present.active(ROOT, now)}) if present else 0
    wanted = present.thresholds[ROOT] if present else 0
    return Missing(max(0, wanted - old), max(0, following.thresholds[ROOT] - new))


def _successor_was_announced(after: Trust, retired: KeyRecord, moment: CeremonyMoment) -> None:
    """Threats D-62: a new key stands in a bundle before it signs alone."""
    known = moment.present.keys if moment.present else {}
    for scope in retired.scope_types:
        ready = [key for key in after.active(CONFIG, moment.now) if scope in key.scope_types and key.key_id in known]
        needed = threshold_of(after.thresholds, scope)
        if len(ready) < needed:
            _refuse(
                f"{len(ready)} announced keys would be left to sign {scope}, {needed} are needed",
                "add a successor in one bundle, and retire the old key in a later one",
            )


def _is_well_formed(trust: Trust) -> None:
    """As every reader will judge it: weak keys, numbers, thresholds (threats D-40)."""
    if len(trust.keys) > DEFAULT.trust_bundle_keys:
        _refuse(f"{len(trust.keys)} keys", f"a bundle holds {DEFAULT.trust_bundle_keys}: remove those that are over")
    members = trust.sections()["keys"]
    try:
        bundles.parse_keys(members)
    except Rejected as rejected:
        _refuse(rejected.detail, "choose a key that readers accept")


def _can_be_followed(after: Trust, now: int) -> None:
    """Root keys that may sign the bundle after it."""
    able, needed = len(after.active(ROOT, now)), after.thresholds[ROOT]
    if able < needed:
        remedy = "add a root key first, or lower the threshold"
        _refuse(f"{able} root keys would be left to sign, {needed} are needed", remedy)


def _can_be_signed_for(after: Trust, now: int) -> None:
    """For every scope type, config keys enough."""
    keys = after.active(CONFIG, now)
    for scope in CONFIG_SCOPES:
        needed = threshold_of(after.thresholds, scope)
        able = sum(scope in key.scope_types for key in keys)
        if able < needed:
            remedy = "add a config key in the same request, or lower the threshold"
            _refuse(f"{able} config keys would be left to sign {scope}, {needed} are needed", remedy)


def _known_key(trust: Trust, wanted: str) -> KeyRecord:
    if wanted not in trust.keys:
        _refuse(f"the bundle has no key {wanted}", "`rotate status` lists them")
    return trust.keys[wanted]


def _with_key(trust: Trust, record: KeyRecord) -> Trust:
    keys: Mapping[str, KeyRecord] = {**trust.keys, record.key_id: record}
    return replace(trust, keys=keys)


def _refuse(detail: str, remedy: str) -> NoReturn:
    raise Refused(Code.CONTRADICTION, detail, remedy=remedy)
