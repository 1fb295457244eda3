"""A cluster of three coordinators with identities, whose root keys are at hand, and sets of them."""

from pathlib import Path

from coordinator.base.settings import CoordinatorSettings
from coordinator.database import cluster_state, history
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import identity, keystore
from coordinator.keys.owner_key import OwnerPublic
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import coordinator_sets
from coordinator.membership.coordinator_sets import SetAdditions
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.opening import with_history
from coordinator.trust import coordinator_set
from coordinator.trust.ceremony import PublicKey
from coordinator.trust.coordinator_set import CoordinatorSet
from snapshot import canonical
from tests.coordinator import begun_clusters, entered

NOW = 1_800_000_000.0
FIRST, SECOND, THIRD = NAMES = ("coord-1", "coord-2", "coord-3")


def _add_others(database: Database) -> None:
    with database.read() as transaction:
        cluster_id = cluster_state.standing(transaction).cluster_id
    for number, name in enumerate(NAMES[1:], 2):
        pin, url = f"sha256:{number:064x}", f"https://c{number}.example:7443"
        founding = Founding(cluster_id, name, url, pin, name.encode() * 8, identity_sha256=pin)
        entered.add(database, founding, actor="root", now=NOW)


class Coordinators:
    def __init__(self, folder: Path, url: str, cluster_id: str = "prod", owners: tuple[OwnerPublic, ...] = ()) -> None:
        place, roots = "https://localhost:7443", folder / "roots"
        given = ClusterRequest(cluster_id, FIRST, place, url, folder / "state", roots, owners=owners)
        begun_clusters.begin(given, now=NOW, more=_add_others)
        self.keys = folder / "state" / "keys"
        self.roots = keystore.find([given.root_keys], [])
        self.database = with_history(Database(url), self.keys)
        self.now = NOW
        self.held: list[str] = []

    def draft(
        self, *names: str, answering: str = FIRST, owners: dict[str, str] | None = None, **exchanged: str
    ) -> CoordinatorSet:
        """`exchanged`: a pin for a name, `-` written as `_`."""
        self.now += 1
        key: SigningKey = keystore.new_key()
        wanted = {**dict.fromkeys(names, ""), **{name.replace("_", "-"): pin for name, pin in exchanged.items()}}
        public = PublicKey(key.algorithm, key.public_key)
        made = coordinator_sets.draft(
            *(self.database, wanted, public, CoordinatorSettings(), self.now),
            answering=answering,
            more=SetAdditions(owners),
        )
        self.held.append(key.key_id)
        return made

    def signed(self, made: CoordinatorSet, count: int = 2) -> CoordinatorSet:
        """As the file comes back."""
        for key in self.roots[:count]:
            made = made.with_signature(key)
        return coordinator_set.read(made.to_text())

    def commit(self, signed: CoordinatorSet, database: Database | None = None) -> None:
        coordinator_sets.commit(database or self.database, signed, self.held, actor="root", now=self.now)

    def manifest(self) -> tuple[str, dict]:
        """Its hash, and what it says."""
        assert isinstance(self.database.history, LinkedHistory)
        with self.database.read() as transaction:
            digest = self.database.history.latest(transaction).transition.manifest
            return digest, canonical.loads(history.get(transaction, history.MANIFESTS, digest))

    def held_key(self) -> str:
        """A config key, of `init`."""
        (key,) = keystore.config_keys(self.keys, {})
        return key.key_id

    def own_pin(self) -> str:
        return identity.pin_of(identity.load(self.keys, {}))
