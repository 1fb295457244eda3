"""What a reader of documents knows: who it is, whom it trusts, what it holds. All of it is given."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from snapshot.envelope import Envelope
from snapshot.frozen import frozen
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import Revocations, SectionEntry

if TYPE_CHECKING:
    from snapshot.bundle import KeyRecord, TrustBundle


class Mark(NamedTuple):
    """The highest accepted version of a scope; `content_hash` is that of the full state. A head's is its generation."""

    authority_epoch: int
    config_version: int
    content_hash: str

    @property
    def version(self) -> tuple[int, int]:
        return self.authority_epoch, self.config_version


class HeldDocument(Protocol):
    """The active document of a scope: the base that an increment changes."""

    @property
    def envelope(self) -> Envelope: ...

    @property
    def content_hash(self) -> str:
        """Of the full state."""

    @property
    def sections(self) -> Mapping[str, SectionEntry]: ...

    def read(self, name: str) -> bytes:
        """The bytes of one section; LookupError where there is none."""


@frozen
class Roots:
    """The root keys that a first trust bundle is judged against (format.md 8)."""

    keys: Mapping[str, "KeyRecord"]
    threshold: int


@frozen
class VerifierState:
    """A reader's standpoint at one moment. `marks` and `active` are by scope; `revocations` are the last head's."""

    cluster_id: str
    node_id: str
    roles: frozenset[str] = frozenset()
    organization_ids: frozenset[str] = frozenset()
    bundle: "TrustBundle | None" = None
    roots: Roots | None = None  # looked at only without a bundle
    marks: Mapping[str, Mark] = field(default_factory=dict)
    active: Mapping[str, HeldDocument] = field(default_factory=dict)
    recoveries: tuple[bytes, ...] = ()  # containers at hand, not yet judged
    used_nonces: frozenset[str] = frozenset()
    revocations: Revocations = field(default_factory=Revocations)
    # Scopes whose accepted content was lost: the same version with the same content is taken again (threats C04).
    lost: frozenset[str] = frozenset()
    # By scope, what a recovery has led to below the mark: that is taken again, and not what was given up (rules S87).
    returned: Mapping[str, Mark] = field(default_factory=dict)
    clock_synchronised: bool = True
    limits: Limits = DEFAULT
