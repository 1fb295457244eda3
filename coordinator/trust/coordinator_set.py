"""Who the coordinators are to be, as a file that goes to the root keys and comes back (rules H0, H24, H39, H49; D-14).

    bundle        the next trust bundle, which lists a new config key: the mesh key of this set alone
    before        the manifest that it follows; no other one may be in place when it is brought in
    manifest      what is to be in its place, all but the time
    signatures    of root keys, over cluster, the hash of `before`, and `manifest`

Pure. A root key signs both, the bundle and the manifest, and counts when it has signed both: the bundle alone does not
say who the coordinators are, and whoever carries the file could name others. What is shown is what is signed, byte for
byte, or the file is refused.

Rejected: the manifest as a section of the trust bundle. Nodes read every section of it, and who the coordinators are
among themselves is no business of theirs.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

from coordinator.base.refusal import Code, Refused
from coordinator.keys import mesh_key, owner_key
from coordinator.keys.signer import SignedDocument
from coordinator.keys.signing_key import SigningKey
from coordinator.trust import ceremony, signing_requests
from coordinator.trust.bundle_content import Trust
from coordinator.trust.signing_requests import SigningRequest
from snapshot import canonical
from snapshot.bundle import TrustBundle
from snapshot.envelope import Envelope
from snapshot.identifiers import is_endpoint, is_hash, is_id
from snapshot.signature import pae, verify_signature
from wire.forms import CONTENT, binary, integer, member, message, table
from wire.messages import BadMessageError, Message

FORMAT = 1
KIND = "coordinators"
MAX_BYTES = 2 << 20
ROLE = "coordinator"
MARK = "holdfast_coordinator_set"
_MEMBERS = {"coordinators", "mesh_key", "seed_share_owners", "trust_bundle"}


@message
class CoordinatorSetFile(Message):
    """`bundle`: a signing request (signing_requests.py)."""

    MOST_BYTES: ClassVar[int] = MAX_BYTES

    holdfast_coordinator_set: int = member(integer(FORMAT, FORMAT))
    about: str
    changes: tuple[str, ...]
    before: Mapping[str, object]
    manifest: Mapping[str, object]
    signatures: Mapping[str, bytes] = member(table(CONTENT, binary(MAX_BYTES)))
    bundle: Mapping[str, object]


@dataclass(frozen=True)
class CoordinatorSet:
    """`before` and `manifest`: canonical JSON."""

    bundle: SigningRequest
    before: bytes
    manifest: bytes
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def envelope(self) -> Envelope:
        return self.bundle.envelope

    @property
    def cluster_id(self) -> str:
        return self.bundle.envelope.cluster_id

    @property
    def about(self) -> str:
        return f"the coordinators of cluster {self.cluster_id}, with {self.bundle.about}"

    @property
    def content(self) -> Mapping[str, object]:
        return _object(self.manifest)

    @property
    def coordinators(self) -> Mapping[str, Mapping[str, object]]:
        return entries_of(self.content)

    @property
    def mesh_key(self) -> str:
        return str(self.content["mesh_key"])

    @property
    def follows(self) -> str:
        """The hash of the manifest that must be in place."""
        return hashlib.sha256(self.before).hexdigest()

    @property
    def following(self) -> TrustBundle:
        if self.bundle.following is None:
            raise _bad("it brings no trust bundle")
        return self.bundle.following

    @property
    def named_owners(self) -> Mapping[str, str]:
        """Those of the seed's shares that it names, and nobody has been before."""
        owners = {} if _object(self.before)["seed_share_owners"] else self.content["seed_share_owners"]
        return cast(Mapping[str, str], owners)

    def changes(self) -> list[str]:
        """What signing this would do, in words, from its content alone."""
        owners = (f"gives {owner} a share of the seed, for the key {key}" for owner, key in self.named_owners.items())
        members = _differences(entries_of(_object(self.before)), self.coordinators)
        return [*members, *owners, *self.bundle.changes()]

    def missing(self) -> ceremony.Missing:
        """How many signatures are still needed, of keys that have signed both."""
        good, at = self._good_keys() & self.bundle.good_keys(), self.envelope.issued_at
        return ceremony.missing(Trust.of(self.bundle.present), Trust.of(self.following), good, at)

    def is_complete(self) -> bool:
        return self.missing() == ceremony.Missing(0, 0)

    def with_signature(self, key: SigningKey) -> "CoordinatorSet":
        """Refused for a key that is not asked."""
        bundle = self.bundle.with_signature(key)
        return replace(self, bundle=bundle, signatures={**self.signatures, key.key_id: key.sign(self._message())})

    def document(self) -> SignedDocument:
        """The signed bundle; Refused while signatures of either are missing."""
        if not self.is_complete():
            remedy = "holdfastctl trust sign, with further keys"
            raise Refused(Code.CONFLICT, "signatures of root keys are missing, or not over this set", remedy=remedy)
        return self.bundle.document()

    def to_text(self) -> str:
        file = CoordinatorSetFile(
            holdfast_coordinator_set=FORMAT,
            about=self.about,
            changes=tuple(self.changes()),
            before=_object(self.before),
            manifest=self.content,
            signatures=self.signatures,
            bundle=json.loads(self.bundle.to_text()),
        )
        return json.dumps(file.to_value(), indent=2) + "\n"  # noqa: TID251 - for people; what is signed is made canonical again

    def _message(self) -> bytes:
        return pae(
            KIND,
            canonical.dumps({"before": self.follows, "cluster_id": self.cluster_id, "manifest": self.content}),
        )

    def _good_keys(self) -> frozenset[str]:
        known = {**self.following.keys, **self.bundle.present.keys}
        return frozenset(
            key_id
            for key_id, data in self.signatures.items()
            if key_id in known
            and verify_signature(known[key_id].algorithm, known[key_id].public_key, self._message(), data)
        )


def make(
    bundle: SigningRequest,
    before: bytes,
    coordinators: Mapping[str, object],
    mesh_key: str,
    owners: Mapping[str, str] | None = None,
) -> CoordinatorSet:
    """The set of these coordinators, with the owners of before (rules H39); or with these, where there were none.
    Refused where it is at odds.
    """
    content = {
        "coordinators": coordinators,
        "mesh_key": mesh_key,
        "seed_share_owners": owners or _object(before)["seed_share_owners"],
        "trust_bundle": bundle.envelope.content_hash,
    }
    made = CoordinatorSet(bundle, before, canonical.dumps(content))
    _is_whole(made)
    return made


def is_one(text: str) -> bool:
    """Whether a file says that it is a set of coordinators."""
    try:
        value = canonical.reread(text.encode())
    except canonical.NotCanonical:
        return False
    return isinstance(value, dict) and MARK in value


def read(text: str) -> CoordinatorSet:
    """The set of a file. What people are shown there must be what is signed."""
    try:
        file = CoordinatorSetFile.parse(text.encode())
        found = CoordinatorSet(
            bundle=signing_requests.read(canonical.dumps(file.bundle).decode()),
            before=canonical.dumps(file.before),
            manifest=canonical.dumps(file.manifest),
            signatures=file.signatures,
        )
    except (BadMessageError, canonical.NotCanonical, ValueError) as error:
        raise _bad(str(error)) from None
    _is_whole(found)
    if (file.about, list(file.changes)) != (found.about, found.changes()):
        raise _bad("`about` and `changes` do not say what its content says")
    return found


def entries_of(manifest: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]:
    """The coordinators of a manifest, by their ids."""
    found = manifest.get("coordinators")
    if not isinstance(found, dict) or not all(isinstance(entry, dict) for entry in found.values()):
        raise _bad("a manifest is out of form")
    return found


def _is_whole(found: CoordinatorSet) -> None:
    """The manifest is of this bundle and of its mesh key, and follows the one before with the owners that it has."""
    before, content = _object(found.before), found.content
    if content.keys() != _MEMBERS or before.keys() != {*_MEMBERS, "created_at"}:
        raise _bad("a manifest is out of form")
    _check_entries(entries_of(before), found.coordinators)
    _check_owners(before["seed_share_owners"], content["seed_share_owners"])
    if before["trust_bundle"] != signing_requests.envelope_of(found.bundle.extends).content_hash:
        raise _bad("its bundle does not follow the one of the manifest before")
    if content["trust_bundle"] != found.envelope.content_hash:
        raise _bad("its manifest is of another bundle")
    if found.mesh_key in found.bundle.present.keys or found.mesh_key != mesh_key.newest_of(
        found.following.keys.values()
    ):
        raise _bad("its mesh key is not the key that its bundle adds")


def _check_owners(before: object, after: object) -> None:
    """They stay as they are. Where there are none, they are named once (rules H39)."""
    if before and after != before:
        raise _bad("it changes the owners of the seed's shares")
    if not isinstance(after, dict) or not all(is_id(name) and owner_key.is_key(key) for name, key in after.items()):
        raise _bad("the owners of the seed's shares are out of form")


def _check_entries(before: Mapping[str, Mapping[str, object]], after: Mapping[str, Mapping[str, object]]) -> None:
    """Some of those that there are, of whom no more may differ than the certificate; and new ones. Each by a
    certificate of its own.
    """
    if not after:
        raise _bad("it names no coordinator")
    for name, entry in after.items():
        if not is_id(name):
            raise _bad(f"{name} is no id")
        if name not in before:
            _check_new(name, entry)
        elif {**entry, "certificate_sha256": ""} != {**before[name], "certificate_sha256": ""}:
            raise _bad(f"the entry of {name} differs in more than its certificate")
        if not is_hash(entry.get("certificate_sha256")):
            raise _bad(f"the certificate of {name} is no sha256:...")
    if len({entry["certificate_sha256"] for entry in after.values()}) < len(after):
        raise _bad("two coordinators have the same certificate")


def _check_new(name: str, entry: Mapping[str, object]) -> None:
    if entry.keys() != {"url", "certificate_sha256", "roles"} or entry["roles"] != [ROLE]:
        raise _bad(f"the entry of {name} is out of form")
    if not is_endpoint(entry["url"]):
        raise _bad(f"the URL of {name} is not https://host:port")


def _differences(
    before: Mapping[str, Mapping[str, object]], after: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            yield f"takes away the coordinator {name}"
        elif old is None:
            yield f"adds the coordinator {name} at {new['url']}, with the certificate {new['certificate_sha256']}"
        elif old != new:
            yield f"{name} has the certificate {new['certificate_sha256']} instead of {_pin_of(old)}"
        else:
            yield f"keeps the coordinator {name}"


def _object(data: bytes) -> Mapping[str, object]:
    value = canonical.loads(data)
    if not isinstance(value, dict):
        raise _bad("a manifest is out of form")
    return cast(Mapping[str, object], value)


def _pin_of(entry: Mapping[str, object] | None) -> object:
    return None if entry is None else entry.get("certificate_sha256")


def _bad(detail: str) -> Refused:
    return Refused(Code.BAD_REQUEST, f"this is no set of coordinators: {detail}", remedy="make it again")
