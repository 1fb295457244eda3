"""Keys, certificates and files of a cluster that is begun, all made in memory; nothing is written here."""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.keys import derived_authority, identity, keystore, seed_share, server_certificate
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import Files, key_file, plain_file
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from coordinator.setup import configuration
from coordinator.setup.cluster_request import ClusterRequest, ca_key_file
from snapshot.bundle import CONFIG, ROOT
from wire.certificate import KeyPair, fingerprint, make_authority


@dataclass(frozen=True)
class ClusterPlan:
    """Every secret and certificate, made in memory."""

    files: Files
    roots: tuple[SigningKey, ...]
    config: SigningKey
    token: SigningKey
    seed: Seed
    certificate_sha256: str
    identity: KeyPair


def plan_files(wanted: ClusterRequest, now: float) -> ClusterPlan:
    """All keys and certificates. Nothing is written."""
    passphrase = wanted.passphrase()
    roots = tuple(keystore.new_key(wanted.algorithm) for _ in range(wanted.roots))
    config, token = keystore.new_key(), SigningKey.of(Ed25519PrivateKey.generate())
    seed, own = Seed.generate(), identity.generate(wanted.coordinator_id, now, wanted.url)
    ca = _make_authority(wanted, seed, now)
    server = server_certificate.issue(ca, (server_certificate.host_of(wanted.url), *wanted.hosts), now)
    files = [
        *((wanted.root_keys / keystore.file_name(ROOT, key), key_file(key, passphrase)) for key in roots),
        (keys_directory(wanted.state) / keystore.file_name(CONFIG, config), key_file(config)),
        (keys_directory(wanted.state) / seeds.FILE, plain_file(seed.to_bytes())),
        *_ca_key(wanted, ca, passphrase),
        *own_files(wanted.state, own, token, ca, server, _with_roots(wanted, roots)),
        *_text_files(wanted.declared),
        *_share_files(wanted, seed),
    ]
    return ClusterPlan(tuple(files), roots, config, token, seed, fingerprint(server.der), own)


def _with_roots(wanted: ClusterRequest, roots: tuple[SigningKey, ...]) -> tuple[Path, str] | None:
    """The configuration, with the root keys that lead to what is believed of another coordinator."""
    if wanted.configuration is None:
        return None
    path, text = wanted.configuration
    return path, text + configuration.trust_table(PinnedRootKeys(tuple(key.key_id for key in roots), wanted.threshold))


def _make_authority(wanted: ClusterRequest, seed: Seed, now: float) -> KeyPair:
    if wanted.ca_key is None:
        return derived_authority.make(seed, 1, wanted.cluster_id, now)
    return make_authority(f"{wanted.cluster_id} coordinators", now)


def _ca_key(wanted: ClusterRequest, ca: KeyPair, passphrase: bytes | None) -> Files:
    path = ca_key_file(wanted)
    return [] if path is None else [(path, plain_file(server_certificate.encrypt(ca.key_pem, passphrase)))]


def _share_files(wanted: ClusterRequest, seed: Seed) -> Files:
    """Nothing of them is of use without the owner's key."""
    return [
        (path, plain_file(seed_share.seal(seed, wanted.cluster_id, owner).to_bytes()))
        for owner, (_, path) in zip(wanted.owners, shares_of(wanted), strict=True)
    ]


def shares_of(wanted: ClusterRequest) -> tuple[tuple[str, Path], ...]:
    place = wanted.shares or wanted.root_keys
    return tuple((owner.owner, place / seed_share.file_name(owner.owner)) for owner in wanted.owners)


def own_files(
    state: Path,
    own: KeyPair,
    token: SigningKey,
    ca: KeyPair,
    server: KeyPair,
    configuration: tuple[Path, str] | None,
) -> Files:
    """What each coordinator has beside its config keys."""
    tls = state / "tls"
    files = [
        (token_file(state), key_file(token)),
        (keys_directory(state) / identity.FILE, plain_file(identity.to_bytes(own))),
        (tls / server_certificate.AUTHORITY, plain_file(ca.certificate_pem, 0o644)),
        (tls / "server-key.pem", plain_file(server.key_pem)),
        (tls / "server.pem", plain_file(server.certificate_pem, 0o644)),
    ]
    return [*files, *_text_files(configuration)]


def _text_files(given: tuple[Path, str] | None) -> Files:
    return [] if given is None else [(given[0], plain_file(given[1].encode(), 0o644))]


def keys_directory(state: Path) -> Path:
    return state / "keys"


def token_file(state: Path) -> Path:
    return keys_directory(state) / "token.pem"


def beginnings(state: Path) -> tuple[Path, Path, Path]:
    """What only a cluster that was begun has."""
    return keys_directory(state), token_file(state), state / "tls" / "server.pem"
