"""What `holdfastctl init` is asked for, and what of it is at odds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.keys import server_certificate
from coordinator.keys.owner_key import OwnerPublic
from coordinator.trust import ceremony
from snapshot.identifiers import is_id
from snapshot.signature import ED25519


@dataclass(frozen=True)
class ClusterRequest:
    """`state`: the coordinator's own directory. `root_keys`: where root keys are put, to be taken away from there."""

    cluster_id: str
    coordinator_id: str
    url: str
    database_url: str
    state: Path
    root_keys: Path
    roots: int = 3
    threshold: int = 2
    algorithm: str = ED25519
    hosts: tuple[str, ...] = ()  # names of the server beside the URL's
    passphrase: Callable[[], bytes | None] = field(
        default=lambda: None, repr=False
    )  # of the root keys, and of a CA key that is put elsewhere: asked for once nothing else is in the way
    ca_key: Path | None = None  # a directory for a CA key of its own; or it follows from the seed
    configuration: tuple[Path, str] | None = None  # a coordinator.toml and its text
    declared: tuple[Path, str] | None = None  # the first declared state and its text (starter.py)
    notes: Path | None = None  # a directory of root's, for its note where the state is a service's
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    owners: tuple[OwnerPublic, ...] = ()  # who is given a share of the seed
    shares: Path | None = None  # a directory for them, to be taken away from there; or beside the root keys


def check(wanted: ClusterRequest) -> None:
    for name, value in (("the cluster id", wanted.cluster_id), ("the coordinator id", wanted.coordinator_id)):
        if not is_id(value):
            raise Refused(Code.BAD_REQUEST, f"{name} {value!r} is no id", remedy="use a-z 0-9 . _ - (rules J25)")
    if not 1 <= wanted.roots <= ceremony.MOST_ROOTS:
        raise Refused(Code.BAD_REQUEST, f"{wanted.roots} root keys", remedy=f"make 1 to {ceremony.MOST_ROOTS}")
    if not 1 <= wanted.threshold <= wanted.roots:
        remedy = f"ask for 1 to {wanted.roots} signatures"
        raise Refused(Code.BAD_REQUEST, f"{wanted.threshold} signatures of {wanted.roots} root keys", remedy=remedy)
    for place in places_to_take_away(wanted):
        if place.resolve().is_relative_to(wanted.state.resolve()):
            detail = f"{place} lies in the coordinator's own directory, {wanted.state}"
            remedy = "put such keys elsewhere, best on a medium that is taken away: --root-keys-to, --ca-key-to"
            raise Refused(Code.BAD_REQUEST, detail, remedy=remedy)
    if len({owner.owner for owner in wanted.owners}) != len(wanted.owners):
        raise Refused(Code.BAD_REQUEST, "an owner of a share is named twice", remedy="give each a name of its own")
    server_certificate.host_of(wanted.url)


def places_to_take_away(wanted: ClusterRequest) -> list[Path]:
    return list(dict.fromkeys([wanted.root_keys, *filter(None, (wanted.ca_key, wanted.shares))]))


def ca_key_file(wanted: ClusterRequest) -> Path | None:
    return None if wanted.ca_key is None else wanted.ca_key / server_certificate.AUTHORITY_KEY
