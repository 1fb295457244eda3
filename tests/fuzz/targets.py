"""What must hold for any bytes (threats E25, D-57): `Rejected` or a verdict, the same one for every split.

Where the fault of interest lies behind the signatures, the bytes are signed first, by a key that the reader trusts.
"""

from collections.abc import Callable, Iterable
from functools import cache

from coordinator.keys.signer import SignedDocument, entry_of
from snapshot import canonical, secrets
from snapshot.canonical import NotCanonical, Parsed
from snapshot.envelope import KINDS, parse
from snapshot.reasons import Reason, Rejected
from snapshot.verify import Verified
from tests.fakes.cluster import Cluster
from tests.fakes.node import Node

Outcome = tuple[object, ...]

BASE = {"routes": {"north": {"hops": [1, 2, 3]}, "south": None}, "settings": {"a": True}}


class Lab:
    """A cluster, a node that holds a version of a scope, and one good document of each kind after it."""

    def __init__(self) -> None:
        cluster = Cluster()
        self.cluster = cluster
        self.node: Node = cluster.node("core_mesh")
        self.node.take(held := cluster.snapshot(BASE))
        self.increment = cluster.increment(patches={"routes": [{"op": "remove", "path": "/south"}]})
        self.snapshot = cluster.snapshot(BASE)
        self.head = cluster.head()
        self.recovery = cluster.recovery(held)
        self.bundle = cluster.trust_bundle()

    @property
    def documents(self) -> list[SignedDocument]:
        return [self.snapshot, self.increment, self.head, self.recovery, self.bundle]


@cache
def lab() -> Lab:
    return Lab()


def container(data: bytes) -> None:
    """The bytes as they come: for each kind that may be asked for, and under other splits."""
    whole = {kind: verdict([data], kind) for kind in KINDS}
    for width in (5, 64):
        pieces = [data[at : at + width] for at in range(0, len(data), width)]
        assert verdict(pieces, "snapshot") == whole["snapshot"], "another verdict for another split"


def envelope(data: bytes) -> None:
    """The bytes as an envelope; each of the kinds, then signed over content that is good."""
    for good in lab().documents:
        kind = good.envelope.kind
        try:
            found = parse(data, kind)
        except Rejected as refusal:
            assert refusal.step == 1
            assert refusal.reason in (Reason.BAD_ENVELOPE, Reason.UNSUPPORTED_SCHEMA)
        else:
            assert found.to_bytes() == data, "an envelope that has two forms"
        verdict(lab().cluster.forge(good, envelope=data).chunks(), kind)


def sections(data: bytes) -> None:
    """The bytes as the section, patch or manifest that the first of them names, signed."""
    choice, content = data[:1], data[1:]
    PLACES[choice[0] % len(PLACES) if choice else 0](content)
    json(content)


def json(data: bytes) -> None:
    try:
        parsed = canonical.parse(data)
    except NotCanonical:
        return
    assert canonical.dumps(parsed.value) == data, "canonical bytes that are not what we would write"
    look_for_secrets(parsed)


def look_for_secrets(parsed: Parsed) -> None:
    """A string that a detector takes for a secret is found in the section that holds it."""
    finding = secrets.find_secret_in(parsed)
    if finding is None:
        assert not any(map(secrets.shape_of, parsed.strings())), "a secret that the section hides"


def _as_section(data: bytes) -> None:
    _judge(lab().cluster.forge(lab().snapshot, sections=[data, b"{}"], manifest=_state(routes=data, settings=b"{}")))


def _as_bundle_section(data: bytes) -> None:
    good = lab().bundle
    names = sorted(canonical.loads(good.manifest_bytes))  # type: ignore[call-overload]
    bodies = dict(zip(names, good.sections, strict=True)) | {"keys": data}
    _judge(lab().cluster.forge(good, sections=[bodies[name] for name in names], manifest=_state(**bodies)))


def _as_patch(data: bytes) -> None:
    good = lab().increment
    change = canonical.loads(good.manifest_bytes)
    assert isinstance(change, dict)
    change["routes"] |= _entry(data)
    _judge(lab().cluster.forge(good, sections=[data], manifest=change))


def _as_manifest(of: str) -> Callable[[bytes], None]:
    return lambda data: _judge(lab().cluster.forge(getattr(lab(), of), manifest=data))


PLACES = (
    _as_section,
    _as_patch,
    _as_bundle_section,
    _as_manifest("snapshot"),
    _as_manifest("increment"),
    _as_manifest("head"),
    _as_manifest("recovery"),
)

TARGETS = {"container": container, "envelope": envelope, "sections": sections}


def _judge(document: SignedDocument) -> None:
    verdict(document.chunks(), document.envelope.kind)


def verdict(chunks: Iterable[bytes], kind: str) -> Outcome:
    """The outcome, for comparing; a fault of the verifier's own is raised as what it was."""
    try:
        found = lab().node.judge(chunks, kind=kind)
    except Rejected as refusal:
        if refusal.reason is Reason.VERIFIER_FAULT:
            raise refusal.__cause__ or refusal from None
        return refusal.step, refusal.reason, refusal.detail
    return type(found), found.mark if isinstance(found, Verified) else None


def _state(**bodies: bytes) -> dict[str, object]:
    return {name: _entry(data) for name, data in bodies.items()}


def _entry(data: bytes) -> dict[str, object]:
    return entry_of(data).members()
