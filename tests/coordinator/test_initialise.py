"""`init`: the whole first state of a cluster, or nothing (rules J34, K12, K26, K48; format.md 8)."""

import multiprocessing
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, documents, history, history_manifest
from coordinator.database.database import Database
from coordinator.database.documents import container_of
from coordinator.keys import identity, keystore, seed_share, server_certificate, tokens
from coordinator.keys import seed as seeds
from coordinator.membership import replicas
from coordinator.setup import cluster_files, initialise
from coordinator.setup.cluster_request import ClusterRequest
from coordinator.setup.initialise import NOTE
from coordinator.setup.opening import with_history
from coordinator.trust import signing_requests
from snapshot.bundle import CONFIG, ROOT
from tests.coordinator.owners import ALICE, BOB, BY_NAME, OWNERS
from wire.certificate import Certificate, pem_to_der

NOW = 1_800_000_000.0
DIED = 9


def wanted(tmp_path: Path, **members: object) -> ClusterRequest:
    state = tmp_path / "state"
    given = ClusterRequest(
        "prod", "coord-1", "https://coord.example:7443", f"sqlite:///{state}/coordinator.db", state, tmp_path / "roots"
    )
    return replace(given, **members)


def run(given: ClusterRequest) -> initialise.MadeCluster:
    return initialise.initialise(given, actor="uid:0", now=NOW)


def refused(given: ClusterRequest) -> Refused:
    with pytest.raises(Refused) as caught:
        run(given)
    assert caught.value.remedy
    return caught.value


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_the_cas_key_is_put_where_it_can_be_taken_away(tmp_path: Path) -> None:
    """threats D-61: none lies on the coordinator; elsewhere under the passphrase, and it makes certificates there"""
    given = wanted(tmp_path, ca_key=tmp_path / "stick", passphrase=lambda: b"four words")
    assert "--ca-key-to" in refused(replace(given, ca_key=given.state / "tls")).remedy
    assert not given.state.exists()
    made = run(given)
    assert made.ca_key == tmp_path / "stick" / "ca-key.pem" and keystore.is_encrypted(made.ca_key)
    tls = given.state / "tls"
    assert {path.name for path in tls.iterdir()} == {"ca.pem", "server.pem", "server-key.pem"}
    ca = server_certificate.authority_in(made.ca_key.parent, b"four words", beside=tls)
    assert server_certificate.issue(ca, ["coord.example"], NOW)


def test_everything_is_there_afterwards(tmp_path: Path) -> None:
    """rules J34, K12, K26: cluster, site, own entry, bundle 1; root keys apart from all else."""
    given = wanted(tmp_path, hosts=("coord-a.example", "10.0.0.7"))
    made = run(given)
    database = Database(given.database_url)
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        assert (standing.cluster_id, standing.authority_epoch) == ("prod", 1)
        assert cluster_state.site_ids(transaction) == {"default"}
        assert cluster_state.server_certificates(transaction) == {made.certificate_sha256}
        (token_key_id,) = cluster_state.token_keys(transaction)
    pinned = replicas.identity_of(database, given.coordinator_id)
    (bundle,) = documents.trust_bundles(database, 0)
    database.close()
    trust = signing_requests.bundle_of(container_of(bundle))
    roots = {name for name, one in trust.keys.items() if one.purpose == ROOT}
    assert (roots, trust.thresholds) == ({name for name, _ in made.root_keys}, {ROOT: 2, CONFIG: 1})
    assert {path.parent for _, path in made.root_keys} == {given.root_keys}
    assert {one.key_id for one in keystore.find([given.root_keys], [])} == roots
    (config,) = keystore.config_keys(cluster_files.keys_directory(given.state), {})
    assert config.key_id == made.config_key[0]
    token = load_pem_private_key(cluster_files.token_file(given.state).read_bytes(), None)
    assert isinstance(token, Ed25519PrivateKey)
    assert tokens.key_id(token.public_key()) == token_key_id
    certificate = Certificate.read(pem_to_der(made.certificate.read_bytes()))
    assert set(certificate.names) == {"coord.example", "coord-a.example", "10.0.0.7"}
    assert certificate.fingerprint == made.certificate_sha256
    private = [path for path in (tmp_path).rglob("*.pem") if b"PRIVATE KEY" in path.read_bytes()]
    assert len(private) == 3 + 1 + 1 + 1 + 1
    own = identity.load(cluster_files.keys_directory(given.state), {})
    assert pinned == identity.pin_of(own) != ""
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    assert not (given.state / NOTE).exists()


def test_no_key_follows_from_anything(tmp_path: Path) -> None:
    """rules P11: the same wishes give other keys, so knowing one secret, or the wishes, gives no key"""
    keys = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        run(wanted(tmp_path / name))
        keys += [data for data in tree(tmp_path / name).values() if b"PRIVATE KEY" in data]
    assert len(keys) >= 10 and len(set(keys)) == len(keys)


def test_root_keys_under_a_passphrase(tmp_path: Path) -> None:
    made = run(wanted(tmp_path, passphrase=lambda: b"secret", roots=1, threshold=1))
    ((_, path),) = made.root_keys
    assert keystore.is_encrypted(path)
    assert [one.key_id for one in keystore.find([path], [b"secret"])] == [made.root_keys[0][0]]


def test_each_owner_gets_a_share_of_the_seed(tmp_path: Path) -> None:
    """rules H4: sealed, apart from the coordinator's own directory; the manifest names who they are"""
    made = run(wanted(tmp_path, owners=OWNERS, shares=tmp_path / "stick"))
    assert made.shares == (("alice", tmp_path / "stick/alice.share"), ("bob", tmp_path / "stick/bob.share"))
    seed = seeds.load(tmp_path / "state/keys", {})
    for (_, path), key in zip(made.shares, (ALICE, BOB), strict=True):
        assert seed_share.parse(path.read_bytes(), name=path.name).open(key) == seed
    database = with_history(Database(wanted(tmp_path).database_url), tmp_path / "state/keys")
    with database.read() as transaction:
        latest = database.history.latest(transaction)
        manifest = history.get(transaction, history.MANIFESTS, latest.transition.manifest)
    database.close()
    assert history_manifest.owners_of(manifest) == BY_NAME


def test_owners_are_told_apart_and_their_shares_are_taken_away(tmp_path: Path) -> None:
    given = wanted(tmp_path, owners=OWNERS)
    assert "named twice" in refused(replace(given, owners=(*OWNERS, BOB.public("alice")))).detail
    assert "own directory" in refused(replace(given, shares=given.state)).detail
    assert [path.parent for _, path in run(given).shares] == [given.root_keys] * 2


def test_an_init_that_is_refused_reads_no_secret(tmp_path: Path) -> None:
    """rules J35"""
    asked = []

    def passphrase() -> bytes:
        asked.append(1)
        return b"four words"

    given = wanted(tmp_path, passphrase=passphrase)
    refused(replace(given, cluster_id="Not An Id"))
    refused(replace(given, threshold=9))
    refused(replace(given, root_keys=given.state))
    assert asked == []
    made = run(given)
    assert asked == [1]
    assert all(keystore.is_encrypted(path) for _, path in made.root_keys)
    assert refused(given).code is Code.ALREADY_INITIALISED
    assert asked == [1]


def test_again_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """rules J34"""
    given = wanted(tmp_path)
    run(given)
    before = tree(tmp_path)
    assert refused(given).code is Code.ALREADY_INITIALISED
    elsewhere = replace(given, state=tmp_path / "other", root_keys=tmp_path / "other-roots")
    assert refused(elsewhere).code is Code.ALREADY_INITIALISED
    assert not elsewhere.root_keys.exists() and not elsewhere.state.exists()
    assert {name: data for name, data in tree(tmp_path).items() if "coordinator.db" not in name} == {
        name: data for name, data in before.items() if "coordinator.db" not in name
    }


@pytest.mark.parametrize("place", ["state", "state/keys", "state/../state/roots", "link/roots"])
def test_root_keys_do_not_lie_with_the_coordinator(tmp_path: Path, place: str) -> None:
    """threats D-61: whoever has the coordinator's machine must not have the cluster."""
    (tmp_path / "link").symlink_to(tmp_path / "state")
    found = refused(replace(wanted(tmp_path), root_keys=tmp_path / place))
    assert (found.code, "--root-keys-to" in found.remedy) == (Code.BAD_REQUEST, True)
    assert [path.name for path in tmp_path.iterdir()] == ["link"]


def test_no_new_directory_is_left_by_what_was_refused(tmp_path: Path) -> None:
    """rules J34: nothing, also where directories above were missing; what was there before stays."""
    given = wanted(tmp_path)
    run(given)
    (tmp_path / "own").mkdir()
    before = sorted(tmp_path.rglob("*"))
    elsewhere = {"state": tmp_path / "own" / "a" / "b", "root_keys": tmp_path / "c" / "d"}
    file = (tmp_path / "e" / "coordinator.toml", "x")
    assert refused(replace(given, **elsewhere, configuration=file)).code is Code.ALREADY_INITIALISED
    assert sorted(tmp_path.rglob("*")) == before


def test_what_stands_in_the_way_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    given = wanted(tmp_path)
    in_the_way = cluster_files.token_file(given.state)
    in_the_way.parent.mkdir(parents=True, mode=0o700)
    in_the_way.write_bytes(b"mine")
    found = refused(given)
    assert str(in_the_way) in found.detail
    assert tree(tmp_path) == {"state/keys/token.pem": b"mine"}
    in_the_way.unlink()
    assert run(given).cluster_id == "prod"


@pytest.mark.parametrize(
    "members",
    [
        {"cluster_id": "Prod"},
        {"cluster_id": " prod"},
        {"coordinator_id": ""},
        {"url": "http://coord.example"},
        {"url": "https://coord.example/path"},
        {"roots": 0},
        {"roots": 9},
        {"threshold": 0},
        {"threshold": 4},
        {"database_url": "mysql://x"},
    ],
)
def test_what_is_at_odds_is_refused_before_anything_is_made(tmp_path: Path, members: dict[str, object]) -> None:
    """rules J25: an id is never trimmed."""
    assert refused(wanted(tmp_path, **members)).code in (Code.BAD_REQUEST, Code.INVALID_SETTINGS)
    assert tree(tmp_path) == {}
    assert run(wanted(tmp_path)).cluster_id == "prod"


def dies_at(number: int, given: object, make: Callable[[Any], object]) -> None:
    """`make` in a process that is gone at its n-th fsync: no clean-up runs."""
    fsync, left = os.fsync, [number]

    def counted(descriptor: int) -> None:
        fsync(descriptor)
        left[0] -= 1
        if left[0] == 0:
            os._exit(DIED)

    os.fsync = counted
    make(given)


def test_killed_anywhere_it_can_be_run_again(tmp_path: Path) -> None:
    """rules J34, P7: after a kill between any two writes either the cluster is there whole, or `init` makes it."""
    context = multiprocessing.get_context("fork")
    outcomes = []
    for number in range(1, 40):
        place = tmp_path / str(number)
        place.mkdir()
        given = wanted(place, roots=2)
        process = context.Process(target=dies_at, args=(number, given, run))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        try:
            run(given)
            outcomes.append("made")
        except Refused as again:
            assert again.code is Code.ALREADY_INITIALISED
            outcomes.append("was whole")
        assert len(keystore.find([given.root_keys], [])) == 2
        assert len(keystore.config_keys(cluster_files.keys_directory(given.state), {})) == 1
        assert not (given.state / NOTE).exists()
    else:
        raise AssertionError("it never ended")
    assert outcomes[0] == "made"
    assert outcomes[-1] == "was whole"
    assert len(outcomes) > 10


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    """rules J34"""
    given = wanted(tmp_path, configuration=(tmp_path / "missing" / "x" / "coordinator.toml", "text"))
    (tmp_path / "missing").write_bytes(b"a file where a directory should be")
    with pytest.raises((OSError, ValueError)):
        run(given)
    assert set(tree(tmp_path)) == {"missing"}
    assert not given.root_keys.exists()
    assert run(wanted(tmp_path)).cluster_id == "prod"


def test_on_postgresql(database_url: str, tmp_path: Path) -> None:
    """rules S1, H8"""
    given = wanted(tmp_path, database_url=database_url)
    run(given)
    database = Database(database_url)
    assert len(documents.trust_bundles(database, 0)) == 1
    database.close()
    assert refused(replace(given, state=tmp_path / "b", root_keys=tmp_path / "c")).code is Code.ALREADY_INITIALISED
