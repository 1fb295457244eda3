"""A document that root keys are to sign, as a file that goes to them and comes back (rules S35, S40; threats D-14).

    for_bundle, for_recovery    a request, from what the coordinator knows
    SigningRequest.to_text      the file: JSON that a person can read, every member of the document spelled out
    read                        the file again; what is shown is what is signed, byte for byte, or it is refused
    signed, merged, document    signatures come to it, from several machines if need be, until there are enough

A request holds the trust bundle that it extends, so the other machine needs nothing else: it says itself what would
change, and never believes the file's own summary.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, cast

from coordinator.base.refusal import Code, Refused
from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from coordinator.trust import ceremony
from coordinator.trust.bundle_content import Trust, differences
from snapshot import bundle as bundles
from snapshot import canonical, manifest
from snapshot import envelope as envelopes
from snapshot.bundle import SCOPE, TrustBundle
from snapshot.container import ChunkParts
from snapshot.envelope import RECOVERY, SNAPSHOT, Envelope
from snapshot.identifiers import format_time, parse_scope
from snapshot.manifest import RecoveryManifest, SectionEntry
from snapshot.reasons import Rejected
from snapshot.signature import pae, verify_signature
from wire.forms import CONTENT, binary, integer, member, message, table
from wire.messages import BadMessageError, Message

FORMAT = 1
MAX_BYTES = 4 << 20
REFRESH_SHARE = 2  # a bundle is to be followed by another at half of its lifetime


@message
class SigningRequestFile(Message):
    """`extends`: the container of the bundle whose root keys are asked. `sections`: JSON, by their names."""

    MOST_BYTES: ClassVar[int] = MAX_BYTES

    holdfast_signing_request: int = member(integer(FORMAT, FORMAT))
    about: str
    changes: tuple[str, ...]
    envelope: Mapping[str, object]
    manifest: Mapping[str, object]
    sections: Mapping[str, object]
    signatures: Mapping[str, bytes] = member(table(CONTENT, binary(MAX_BYTES)))
    extends: bytes = member(binary(MAX_BYTES))


@dataclass(frozen=True)
class Lifetime:
    """Unix seconds."""

    issued_at: int
    expires_at: int

    @property
    def refresh_after(self) -> int:
        return self.issued_at + (self.expires_at - self.issued_at) // REFRESH_SHARE


@dataclass(frozen=True)
class SigningRequest:
    """`extends`: the container of the bundle whose root keys are asked."""

    extends: bytes
    envelope: Envelope
    manifest: bytes
    sections: Mapping[str, bytes]
    signatures: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def present(self) -> TrustBundle:
        return bundle_of(self.extends)

    @cached_property
    def following(self) -> TrustBundle | None:
        """The bundle asked for; None for a recovery."""
        if self.envelope.kind == RECOVERY:
            return None
        try:
            return bundles.from_bytes(self.envelope, self.sections)
        except Rejected as rejected:
            raise _bad(f"its trust bundle is not one: {rejected.detail}") from None

    @property
    def about(self) -> str:
        one = self.envelope
        if one.kind == RECOVERY:
            return f"recovery of {one.scope} on {one.subject_node_id} in cluster {one.cluster_id}"
        return f"trust bundle {one.config_version} of cluster {one.cluster_id}"

    def changes(self) -> list[str]:
        """What signing this would do, in words, from its content alone."""
        end = f"is good until {format_time(self.envelope.expires_at)}"
        if self.following is not None:
            return [*differences(Trust.of(self.present), Trust.of(self.following)), end]
        allowed = _recovery(self.manifest)
        back = f"lets it go back once from version {allowed.from_config_version} to {allowed.to_config_version}"
        return [f"{back}, whose content is {allowed.to_content_hash}", end]

    def missing(self) -> ceremony.Missing:
        """How many signatures are still needed; those that do not verify are no signatures."""
        good, at = self.good_keys(), self.envelope.issued_at
        if self.following is not None:
            return ceremony.missing(Trust.of(self.present), Trust.of(self.following), good, at)
        present = Trust.of(self.present)
        return replace(ceremony.missing(present, present, good, at), of_next=0)

    def is_complete(self) -> bool:
        return self.missing() == ceremony.Missing(0, 0)

    def with_signature(self, key: SigningKey) -> "SigningRequest":
        """With this key's signature; Refused for a key that is not asked."""
        if key.key_id not in self.envelope.signers:
            asked = ", ".join(self.envelope.signers)
            raise Refused(Code.CONTRADICTION, f"{key.key_id} is not asked to sign this", remedy=f"use one of {asked}")
        signature = key.sign(pae(self.envelope.kind, self.envelope.to_bytes()))
        return replace(self, signatures={**self.signatures, key.key_id: signature})

    def merge(self, other: "SigningRequest") -> "SigningRequest":
        """The signatures of both; Refused where they are over different documents."""
        if (other.envelope, other.extends) != (self.envelope, self.extends):
            raise Refused(Code.CONFLICT, "these files are of different requests", remedy="sign copies of one request")
        return replace(self, signatures={**self.signatures, **other.signatures})

    def document(self) -> SignedDocument:
        """The signed document; Refused while signatures are missing."""
        if not self.is_complete():
            need = self.missing()
            detail = f"{need.of_present} signatures of the present bundle's root keys, {need.of_next} of the next one's"
            raise Refused(Code.CONFLICT, f"{detail} are missing", remedy="holdfastctl trust sign, with further keys")
        good = self._good()
        ordered = tuple((key_id, good[key_id]) for key_id in self.envelope.signers if key_id in good)
        sections = tuple(self.sections[name] for name in sorted(self.sections))
        return SignedDocument(self.envelope, self.envelope.to_bytes(), ordered, self.manifest, sections)

    def good_keys(self) -> frozenset[str]:
        """The keys whose signatures are good."""
        return frozenset(self._good())

    def to_text(self) -> str:
        file = SigningRequestFile(
            holdfast_signing_request=FORMAT,
            about=self.about,
            changes=tuple(self.changes()),
            envelope=_object(self.envelope.to_bytes()),
            manifest=_object(self.manifest),
            sections={name: canonical.loads(data) for name, data in self.sections.items()},
            signatures=self.signatures,
            extends=self.extends,
        )
        return json.dumps(file.to_value(), indent=2) + "\n"  # noqa: TID251 - for people; what is signed is made canonical again

    def _good(self) -> dict[str, bytes]:
        known = {**(self.following.keys if self.following else {}), **self.present.keys}
        message = pae(self.envelope.kind, self.envelope.to_bytes())
        return {
            key_id: data
            for key_id, data in self.signatures.items()
            if key_id in known and verify_signature(known[key_id].algorithm, known[key_id].public_key, message, data)
        }


def for_bundle(extends: bytes, following: Trust, life: Lifetime) -> SigningRequest:
    """The request for bundle N+1 over the container of bundle N."""
    present, opened = bundle_of(extends), envelope_of(extends)
    claims = _claims(opened.cluster_id, SCOPE, present.version + 1, following.authority_epoch, life)
    listed = ceremony.signers_of(Trust.of(present), following, life.issued_at)
    return _make(extends, claims.envelope(SNAPSHOT), following.sections(), listed, {**following.keys, **present.keys})


def for_recovery(extends: bytes, node_id: str, scope: str, allowed: RecoveryManifest, life: Lifetime) -> SigningRequest:
    """The request for a permission to go back, over the container of the bundle that nodes hold."""
    present, opened = bundle_of(extends), envelope_of(extends)
    of = parse_scope(scope)
    claims = _claims(opened.cluster_id, of.type, allowed.from_config_version, present.authority_epoch, life)
    about = replace(claims, subject_node_id=node_id, scope_ids=of.ids)
    trust = Trust.of(present)
    listed = ceremony.signers_of(trust, trust, life.issued_at)
    return _make(extends, about.envelope(RECOVERY), vars(allowed), listed, present.keys)


def read(text: str) -> SigningRequest:
    """The request of a file. What people are shown there must be what is signed."""
    try:
        file = SigningRequestFile.parse(text.encode())
        found = _read(file)
    except BadMessageError as error:
        raise _bad(str(error)) from None
    except (canonical.NotCanonical, ValueError) as error:
        raise _bad(str(error)) from None
    except Rejected as rejected:
        raise _bad(f"{rejected.reason.value}: {rejected.detail}") from None
    if (file.about, list(file.changes)) != (found.about, found.changes()):
        raise _bad("`about` and `changes` do not say what its content says")
    return found


def bundle_of(data: bytes) -> TrustBundle:
    """The content of a bundle's container, not judged; Refused for anything else."""
    try:
        parts = ChunkParts([data])
        opened = envelopes.parse(parts.opening().envelope, SNAPSHOT)
        entries = manifest.parse_state(parts.manifest())
        sections = parts.sections([entry.size for entry in entries.values()])
        return bundles.from_bytes(opened, dict(zip(entries, sections, strict=True)))
    except Rejected as rejected:
        raise _bad(f"`extends` is no trust bundle: {rejected.reason.value}") from None


def _claims(cluster_id: str, scope_type: str, version: int, epoch: int, life: Lifetime) -> EnvelopeClaims:
    return EnvelopeClaims(
        snapshot_id=secrets.token_hex(16),
        cluster_id=cluster_id,
        scope_type=scope_type,
        config_version=version,
        authority_epoch=epoch,
        issued_at=life.issued_at,
        refresh_after=life.refresh_after,
        expires_at=life.expires_at,
    )


def _make(
    extends: bytes,
    about: Envelope,
    content: Mapping[str, object],
    listed: Sequence[str],
    keys: Mapping[str, bundles.KeyRecord],
) -> SigningRequest:
    """`content`: sections of a bundle, or what a recovery says."""
    sections: dict[str, bytes] = {}
    if about.kind == RECOVERY:
        body = canonical.dumps(dict(content))
    else:
        sections = {name: canonical.dumps(section) for name, section in sorted(content.items())}
        body = manifest.state_bytes({name: signer.entry_of(data) for name, data in sections.items()})
    complete = replace(
        about,
        signer_key_id=listed[0],
        signature_algorithm=keys[listed[0]].algorithm,
        cosigner_key_ids=tuple(sorted(listed[1:])),
        content_hash=signer.content_hash(body),
        content_length=sum(map(len, sections.values())),
    )
    return SigningRequest(extends, complete, body, sections)


def _read(file: SigningRequestFile) -> SigningRequest:
    kind = RECOVERY if file.envelope.get("kind") == RECOVERY else SNAPSHOT
    found = SigningRequest(
        extends=file.extends,
        envelope=envelopes.parse(canonical.dumps(file.envelope), kind),
        manifest=canonical.dumps(file.manifest),
        sections={name: canonical.dumps(data) for name, data in sorted(file.sections.items())},
        signatures=file.signatures,
    )
    _is_whole(found)
    return found


def _is_whole(found: SigningRequest) -> None:
    """The envelope signs this manifest, the manifest these sections, and all of it follows the bundle it extends."""
    one, present = found.envelope, found.present
    entries: Mapping[str, SectionEntry] = {name: signer.entry_of(data) for name, data in found.sections.items()}
    is_recovery = one.kind == RECOVERY
    if one.content_hash != signer.content_hash(found.manifest):
        raise _bad("its envelope is of another content")
    if found.manifest != (
        canonical.dumps(vars(_recovery(found.manifest))) if is_recovery else manifest.state_bytes(entries)
    ):
        raise _bad("its manifest is of other sections")
    if envelope_of(found.extends).cluster_id != one.cluster_id:
        raise _bad("the bundle that it extends is of another cluster")
    if not is_recovery and (one.scope, one.config_version) != (SCOPE, present.version + 1):
        raise _bad(f"it is not the bundle after {present.version}")


def envelope_of(data: bytes) -> Envelope:
    """Of a bundle's container, not judged."""
    return envelopes.parse(ChunkParts([data]).opening().envelope, SNAPSHOT)


def _recovery(data: bytes) -> RecoveryManifest:
    return manifest.parse_recovery(data)


def _object(data: bytes) -> Mapping[str, object]:
    """Of bytes that are an object."""
    return cast(Mapping[str, object], canonical.loads(data))


def _bad(detail: str) -> Refused:
    return Refused(Code.BAD_REQUEST, f"this is no signing request: {detail}", remedy="export it again")
