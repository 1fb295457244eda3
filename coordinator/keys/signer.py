"""Signing: what `snapshot/verify.py` believes, made. The agent's process never holds this module.

snapshot increment recovery           a SignedDocument of that kind
DocumentForm                          many documents that are alike
sign                                  any envelope over any content, as it is given
trust_bundle_sections, key_record     the sections of a trust bundle
"""

import base64
import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from coordinator.keys.envelope_form import EnvelopeForm
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical, container, manifest
from snapshot.bundle import ACTIVE, CONFIG, ROOT
from snapshot.envelope import INCREMENT, RECOVERY, SHARED, SNAPSHOT, Envelope
from snapshot.frozen import replace_members
from snapshot.identifiers import HEAD, SCOPE_TYPES, format_time
from snapshot.manifest import RecoveryManifest, Revocations, SectionChange, SectionEntry
from snapshot.signature import pae

NO_HASH = "sha256:" + "0" * 64
_OF_EACH = ("snapshot_id", "subject_node_id", "config_version", "refresh_after", "content_hash", "content_length")
_NO_SECTIONS: Mapping[str, bytes] = {}


@dataclass(frozen=True)
class SignedDocument:
    """A signed document, ready to be sent."""

    envelope: Envelope
    envelope_bytes: bytes
    signatures: tuple[tuple[str, bytes], ...]
    manifest_bytes: bytes
    sections: tuple[bytes, ...]

    def chunks(self) -> Iterator[bytes]:
        return container.encode(self.envelope_bytes, self.signatures, self.manifest_bytes, self.sections)

    def to_bytes(self) -> bytes:
        return b"".join(self.chunks())


@dataclass(frozen=True)
class EnvelopeClaims:
    """What an envelope says beside what follows from its content and its signers. Times are Unix seconds."""

    snapshot_id: str
    cluster_id: str
    scope_type: str
    config_version: int
    authority_epoch: int
    issued_at: int
    refresh_after: int
    expires_at: int
    subject_node_id: str = SHARED
    scope_ids: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    organization_ids: tuple[str, ...] = ()
    valid_from: int | None = None  # issued_at where it is None
    min_trust_bundle_version: int = 0

    def envelope(
        self, kind: str, content: bytes | None = None, length: int = 0, keys: Sequence[SigningKey] = ()
    ) -> Envelope:
        """Without a content and keys, these are for `sign` to fill in."""
        return Envelope(
            kind=kind,
            snapshot_id=self.snapshot_id,
            cluster_id=self.cluster_id,
            subject_node_id=self.subject_node_id,
            scope_type=self.scope_type,
            scope_ids=tuple(sorted(self.scope_ids)),
            roles=tuple(sorted(self.roles)),
            organization_ids=tuple(sorted(self.organization_ids)),
            config_version=self.config_version,
            authority_epoch=self.authority_epoch,
            issued_at=self.issued_at,
            valid_from=self.issued_at if self.valid_from is None else self.valid_from,
            refresh_after=self.refresh_after,
            expires_at=self.expires_at,
            min_trust_bundle_version=self.min_trust_bundle_version,
            signer_key_id=keys[0].key_id if keys else NO_HASH,
            signature_algorithm=keys[0].algorithm if keys else "",
            cosigner_key_ids=tuple(sorted(key.key_id for key in keys[1:])),
            content_hash=NO_HASH if content is None else content_hash(content),
            content_length=length,
        )


@dataclass(frozen=True)
class Base:
    """The full state that an increment changes."""

    config_version: int
    sections: Mapping[str, SectionEntry]


def snapshot(
    claims: EnvelopeClaims, sections: Mapping[str, object], keys: Sequence[SigningKey], raw: Container[str] = ()
) -> SignedDocument:
    """`sections` are JSON values by name, or their bytes; those named by `raw` are bytes and no JSON."""
    encoded = {name: section_bytes(value) for name, value in sections.items()}
    entries = {name: entry_of(data, is_raw=name in raw) for name, data in encoded.items()}
    content, length = manifest.state_bytes(entries), sum(map(len, encoded.values()))
    return sign_as_given(claims.envelope(SNAPSHOT, content, length, keys), content, _in_order(encoded), keys)


def increment(
    claims: EnvelopeClaims,
    base: Base,
    changes: Mapping[str, SectionChange],
    brought: Mapping[str, bytes],
    keys: Sequence[SigningKey],
) -> SignedDocument:
    """`brought` are the bytes of each section set, and of each patch."""
    content = increment_bytes(changes)
    after = manifest.state_after(base.sections, changes)
    envelope = replace(
        claims.envelope(INCREMENT),
        base_config_version=base.config_version,
        next_config_version=claims.config_version,
        base_content_hash=content_hash(manifest.state_bytes(base.sections)),
        next_content_hash=content_hash(manifest.state_bytes(after)),
    )
    return sign(envelope, content, _in_order(brought), keys)


def increment_bytes(changes: Mapping[str, SectionChange]) -> bytes:
    """The manifest of an increment."""
    return canonical.dumps({name: _change_members(change) for name, change in changes.items()})


def head_members(
    generation: int,
    scopes: Mapping[str, Mapping[str, object]],
    candidates: Mapping[str, Mapping[str, object]],
    *,
    poll_after_s: int,
    revocations: Mapping[str, object],
) -> dict[str, object]:
    """The manifest of a head as JSON. `scopes` and `candidates` as it lists them (ScopeVersion.members);
    `revocations` as `revocation_members` has them.
    """
    return {
        "generation": generation,
        "poll_after_s": poll_after_s,
        "revocations": revocations,
        "scopes": scopes,
        **({"candidates": candidates} if candidates else {}),
    }


class DocumentForm:
    """Documents that have `claims` in common, but for what each has of its own. The first is written as it is; whoever
    has a second one has many.
    """

    def __init__(self, kind: str, claims: EnvelopeClaims, keys: Sequence[SigningKey]) -> None:
        self._common, self._keys = claims.envelope(kind, b"", 0, keys), keys
        self._is_first = True

    def sign(
        self,
        content: bytes,
        sections: Mapping[str, bytes] = _NO_SECTIONS,
        *,
        snapshot_id: str,
        subject_node_id: str,
        config_version: int,
        refresh_after: int,
    ) -> SignedDocument:
        """The document of this manifest, which names just these sections."""
        envelope = replace_members(
            self._common,
            snapshot_id=snapshot_id,
            subject_node_id=subject_node_id,
            config_version=config_version,
            refresh_after=refresh_after,
            content_hash=content_hash(content),
            content_length=sum(map(len, sections.values())),
        )
        encoded = envelope.to_bytes() if self._is_first else self._form.fill(vars(envelope))
        self._is_first = False
        return _sign_bytes(envelope, encoded, content, _in_order(sections), self._keys)

    @cached_property
    def _form(self) -> EnvelopeForm:
        return EnvelopeForm(self._common.to_bytes(), _OF_EACH)


def recovery(claims: EnvelopeClaims, allowed: RecoveryManifest, keys: Sequence[SigningKey]) -> SignedDocument:
    return sign(claims.envelope(RECOVERY), canonical.dumps(vars(allowed)), (), keys)


def sign(envelope: Envelope, content: bytes, sections: Sequence[bytes], keys: Sequence[SigningKey]) -> SignedDocument:
    """The envelope completed by its content and its signers, the first key the primary one, and signed by all."""
    complete = replace(
        envelope,
        signer_key_id=keys[0].key_id,
        signature_algorithm=keys[0].algorithm,
        cosigner_key_ids=tuple(sorted(key.key_id for key in keys[1:])),
        content_hash=content_hash(content),
        content_length=sum(map(len, sections)),
    )
    return sign_as_given(complete, content, sections, keys)


def sign_as_given(
    envelope: Envelope, content: bytes, sections: Sequence[bytes], keys: Sequence[SigningKey]
) -> SignedDocument:
    """Signatures by all keys over the envelope as it stands."""
    return _sign_bytes(envelope, envelope.to_bytes(), content, sections, keys)


def _sign_bytes(
    envelope: Envelope, encoded: bytes, content: bytes, sections: Sequence[bytes], keys: Sequence[SigningKey]
) -> SignedDocument:
    message = pae(envelope.kind, encoded)
    signatures = tuple((key.key_id, key.sign(message)) for key in keys)
    return SignedDocument(envelope, encoded, signatures, content, tuple(sections))


def trust_bundle_sections(
    keys: Mapping[str, Mapping[str, object]],
    *,
    root_threshold: int,
    config_threshold: int,
    authority_epoch: int,
    revocations: Revocations | None = None,
    of_types: Mapping[str, int] | None = None,
) -> dict[str, object]:
    """The four sections of format.md 8; `of_types` are thresholds of single scope types, `config/<scope type>`."""
    return {
        "keys": dict(keys),
        "thresholds": {ROOT: root_threshold, CONFIG: config_threshold, **(of_types or {})},
        "authority": {"authority_epoch": authority_epoch},
        "revocations": revocation_members(revocations or Revocations(), of_head=False),
    }


def key_record(
    key: SigningKey,
    *,
    purpose: str,
    cluster_id: str,
    not_before: int,
    not_after: int,
    status: str = ACTIVE,
    scope_types: Sequence[str] | None = None,
) -> dict[str, object]:
    """One member of the section `keys`; without `scope_types` a config key may sign all that config keys sign."""
    every = [scope for scope in (*SCOPE_TYPES, HEAD) if scope != "trust_bundle"]
    return {
        "algorithm": key.algorithm,
        "public_key": base64.b64encode(key.public_key).decode(),
        "purpose": purpose,
        "cluster_id": cluster_id,
        "scope_types": sorted(every if scope_types is None else scope_types) if purpose == CONFIG else [],
        "not_before": format_time(not_before),
        "not_after": format_time(not_after),
        "status": status,
    }


def content_hash(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def entry_of(data: bytes, *, is_raw: bool = False) -> SectionEntry:
    return SectionEntry(hashlib.sha256(data).hexdigest(), len(data), is_raw)


def section_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else canonical.dumps(value)


def _in_order(sections: Mapping[str, bytes]) -> tuple[bytes, ...]:
    """In manifest order: names are ASCII, so by code point."""
    return tuple(sections[name] for name in sorted(sections))


def _change_members(change: SectionChange) -> dict[str, object]:
    if change.brought is None or change.result is None:
        return {"op": "remove"}
    members: dict[str, object] = {"op": change.op, **change.brought.members()}
    if change.op == "patch":
        members |= {"result_sha256": change.result.sha256, "result_size": change.result.size}
    return members


def revocation_members(revocations: Revocations, *, of_head: bool) -> dict[str, object]:
    members = {name: sorted(v) if isinstance(v, frozenset) else v for name, v in vars(revocations).items()}
    if not of_head:
        members = {name: value for name, value in members.items() if name not in ("version", "key_ids")}
    return members
