"""A cluster on one machine, and another machine that it moves to; with real files, each in a folder of its own."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coordinator.database.database import Database
from coordinator.keys.owner_key import OwnerPublic
from coordinator.membership import admission, replicas
from coordinator.setup import configuration, export, import_cluster, own_identity
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.configuration import Configuration
from coordinator.setup.export import ExportRequest, MadeExport
from coordinator.setup.import_cluster import ImportedCluster, ImportRequest
from coordinator.setup.opening import open_as_coordinator
from holdfast.ctl.setup import configuration_text
from tests.coordinator import begun_clusters
from tests.coordinator.candidates import Candidate, allow, join

NOW = 1_800_000_000.0
URL = "https://b.example:7443"


def text(name: str, state: Path, database_url: str) -> str:
    """coordinator.toml, as the commands write it."""
    given = {
        "coordinator_id": name,
        **dict.fromkeys(("listen", "listen_join", "listen_probes"), "127.0.0.1:0"),
        "admin_socket": state.parent / "admin.sock",
        "listen_admin": "",
    }
    return configuration_text(given, state, database_url)


@dataclass
class Place:
    """A machine: `state` and `coordinator.toml` in its folder."""

    folder: Path
    name: str
    database_url: str = ""
    now: float = NOW
    files: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.state = self.folder / "state"
        self.database_url = self.database_url or f"sqlite:///{self.state}/coordinator.db"

    @property
    def path(self) -> Path:
        return self.folder / "coordinator.toml"

    @property
    def at(self) -> Configuration:
        return configuration.load(self.path)

    def init(self, cluster_id: str = "prod", owners: tuple[OwnerPublic, ...] = ()) -> None:
        about = (cluster_id, self.name, "https://a.example:7443", self.database_url, self.state, self.folder / "roots")
        made = (self.path, text(self.name, self.state, self.database_url))
        begun_clusters.begin(ClusterRequest(*about, configuration=made, owners=owners), now=self.now)

    def identity(self, *, anew: bool = False) -> bytes:
        return own_identity.make(self.state, self.name, anew=anew, now=self.now).certificate

    def opened(self) -> Database:
        """As the coordinator itself works on it."""
        return open_as_coordinator(self.at)

    def export(self, to: "Place", file: str = "cluster.hfx", url: str = URL) -> MadeExport:
        wanted = ExportRequest(self.at, self.folder / file, to.identity(), url)
        return export.make(wanted, actor="root", now=self.now)

    def import_(self, file: Path, **other: object) -> ImportedCluster:
        made = (self.path, text(self.name, self.state, self.database_url))
        given = {"cluster_id": "prod", "url": URL, "database_url": self.database_url, "state": self.state}
        wanted = ImportRequest(file=file, configuration=made, **{**given, **other})
        return import_cluster.import_(wanted, actor="root", now=other.pop("now", self.now))


def admit(place: Place, database: Database, node_id: str, token: str = "") -> Candidate:
    """A member, by a token of that coordinator."""
    candidate = Candidate(node_id)
    allow(database, candidate)
    entry = next(each for each in replicas.list_replicas(database) if each.coordinator_id == place.name)
    given = token or token_of(place, database)
    assert join(database, candidate, given, server=entry.certificate_sha256).outcome == "admitted"
    return candidate


def token_of(place: Place, database: Database) -> str:
    key = load_pem_private_key((place.state / "keys" / "token.pem").read_bytes(), None)
    return admission.issue_token(database, key, node_id=None, lifetime_s=3_600, actor="root", now=NOW)[0]
