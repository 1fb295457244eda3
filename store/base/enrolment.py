"""What enrolment fixed, outside of LMDB, written once: whose node this is, and the lowest that it may ever accept.

A sealed file in `identity/`, mode 0400 (threats D-19): a lost store does not lose it, and where it exists there is
no second first use. It holds no private key (rules L40).
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from snapshot.frozen import frozen
from store.base import sealed
from store.base.disk import Disk
from store.base.errors import StoreError, StoreFault

MAGIC = b"HOLDFASTE1"
FILE = "enrolment.rec"


@frozen
class Enrolment:
    """`root_keys` maps key id to public key (base64 SPKI DER). Minimum: epoch, bundle version, Unix seconds."""

    cluster_id: str
    node_id: str
    root_keys: Mapping[str, str]
    root_threshold: int
    minimum_epoch: int
    minimum_bundle_version: int
    minimum_time: int
    trusted_by: str  # "configuration", "installed bundle", "join token" or "first use"
    enrolled_at: int
    confirmed: bool = False  # the operator has seen the fingerprints


def write(identity: Path, temporary: Path, disk: Disk, enrolment: Enrolment) -> None:
    """Keep it, once; StoreError conflict where another enrolment stands."""
    present = read(identity)
    if present is not None and _immutable_fields(present) != _immutable_fields(enrolment):
        raise StoreError(
            StoreFault.CONFLICT, f"{identity / FILE} holds another enrolment, of other roots, and no command changes it"
        )
    sequence = 1 if present is None else 2
    new = temporary / "enrolment.new"
    disk.write_file(new, sealed.seal(MAGIC, sequence, asdict(enrolment)), mode=0o400)
    disk.rename(new, identity / FILE)


def read(identity: Path) -> Enrolment | None:
    """The enrolment, or None where there was none; StoreError store_corrupt when it is damaged."""
    try:
        found = sealed.read(MAGIC, identity / FILE)
        return None if found is None else Enrolment(**found[1])  # type: ignore[arg-type]
    except (sealed.UnreadableFile, TypeError) as error:
        raise StoreError(StoreFault.STORE_CORRUPT, f"{identity / FILE}: {error}") from error


def _immutable_fields(enrolment: Enrolment) -> dict[str, object]:
    """All but what the operator confirms afterwards."""
    return {name: value for name, value in asdict(enrolment).items() if name != "confirmed"}
