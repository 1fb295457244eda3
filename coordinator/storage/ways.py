"""How each declared store is written to: as this machine's coordinator.toml says (`[storage.<id>]`); or, where a member
runs it, by its pinned certificate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import trio

from coordinator.base.storage_access import StorageAccess
from coordinator.declared.kinds import StorageEndpoint
from coordinator.storage.directory_store import DirectoryStore
from coordinator.storage.node_store import open_node
from coordinator.storage.store import OpenStore

DIRECTORY, BUCKET, NODE = "directory", "bucket", "node"


@dataclass(frozen=True)
class StoreWay:
    """`place`: whose directory it is, or nothing for a store that all coordinators reach."""

    name: str
    open: OpenStore
    place: str = ""


@dataclass
class Ways:
    """`file_of` gives the file that `credential:NAME` stands for, `identity` that of this coordinator's identity."""

    access: tuple[StorageAccess, ...]
    coordinator_id: str
    file_of: Callable[[str], Path]
    identity: Callable[[], Path]
    now: Callable[[], float]
    _threads: dict[str, trio.CapacityLimiter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What speaks to buckets comes with httpx, a tenth of a start: where there is one, and before anybody asks."""
        if any(not access.directory for access in self.access):
            import_module("coordinator.storage.s3_store")

    @property
    def endpoint_ids(self) -> frozenset[str]:
        """The endpoints that coordinator.toml names."""
        return frozenset(access.endpoint_id for access in self.access)

    def find(self, endpoint: StorageEndpoint, pins: Sequence[bytes] = ()) -> StoreWay | None:
        """None: whoever runs it keeps it up. `pins`: the certificates of the member that runs it, DER."""
        access = next((access for access in self.access if access.endpoint_id == endpoint.id), None)
        if access is None and not pins:
            return None
        if access is None:
            return StoreWay(f"{NODE} {endpoint.node}", lambda: open_node(endpoint.url, pins, self.identity))
        if access.directory:
            thread = self._threads.setdefault(access.directory, trio.CapacityLimiter(1))
            store = DirectoryStore(Path(access.directory), thread)
            return StoreWay(f"{DIRECTORY} {access.directory}", store.open, self.coordinator_id)
        return StoreWay(f"{BUCKET} {access.bucket}", self._opening_bucket(access))

    def _opening_bucket(self, access: StorageAccess) -> OpenStore:
        from coordinator.storage.s3_store import S3Access, opened_s3  # noqa: PLC0415 - loaded above

        bucket = S3Access(
            access.bucket,
            access.region,
            access.prefix,
            lambda: self.file_of(access.credentials),
            Path(access.ca_file) if access.ca_file else None,
        )
        return lambda: opened_s3(bucket, self.now)
