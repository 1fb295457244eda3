"""Owners of the seed, as people name them: their keys, their shares, and a cluster that is given some later."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.keys import seed as seeds
from coordinator.keys import seed_share, signing_key
from coordinator.keys.owner_key import OwnerKey
from coordinator.keys.seed import Seed
from holdfast.ctl.socket import REFUSED, UNCONFIRMED
from snapshot import canonical
from tests.coordinator.owners import ALICE
from tests.fakes.hostile import relay
from tests.holdfast.operator_lab import Lab, running


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("alone")) as started:
        yield started


def opened(share: Path, key: Path) -> Seed:
    return seed_share.parse(share.read_bytes(), name=share.name).open(OwnerKey.of(signing_key.from_file(key)))


def test_each_owner_makes_a_key_and_init_gives_them_shares(tmp_path: Path) -> None:
    """rules H4: the private half never leaves the owner's machine, and a share opens with it alone"""
    lab = Lab(tmp_path)
    for name in ("alice", "bob"):
        assert f"owner {name}" in lab.good("coordinators", "owner-key", "--out", f"{name}.key").out
        assert stat.S_IMODE((tmp_path / f"{name}.key").stat().st_mode) == 0o600
    again = lab.ctl("coordinators", "owner-key", "--out", "alice.key")
    said = "holdfastctl: conflict: alice.pub is there already, or is the private key's own name (move it away first)\n"
    assert (again.status, again.err) == (REFUSED, said)  # in the form of what a coordinator refuses
    unnamed = lab.ctl("coordinators", "owner-key", "--out", "Not An Id.key")
    assert (unnamed.status, unnamed.err.partition(" 'Not")[0]) == (REFUSED, "holdfastctl: bad_request:")
    owners = ("--seed-share-owner", "alice.pub", "--seed-share-owner", "bob.pub")
    made = lab.init(*owners, "--shares-to", tmp_path / "shares").out
    assert "Give each owner their share" in made
    seed = seeds.load(tmp_path / "state/keys", {})
    for name in ("alice", "bob"):
        share = tmp_path / f"shares/{name}.share"
        assert str(share) in made
        assert opened(share, tmp_path / f"{name}.key") == seed
        assert seed.seed.hex() not in share.read_text()


def test_a_file_that_is_no_owners_makes_no_cluster(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    value = json.loads((tmp_path / "alice.pub").read_text())
    (tmp_path / "alice.pub").write_bytes(canonical.dumps({**value, "owner": "eve"}))
    before = sorted(path.name for path in tmp_path.iterdir())
    place = ("--url", "https://localhost:7443", "--state", "state", "--root-keys-to", lab.roots)
    for file, why in (("alice.pub", "was damaged"), ("alice.key", "no public half")):
        ran = lab.ctl("init", "prod", *place, "--configuration", lab.configuration, "--seed-share-owner", file)
        assert (ran.status, why in ran.err) == (REFUSED, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_cluster_without_owners_is_given_some_by_its_root_keys(alone: Lab) -> None:
    """rules H39: once; then their shares are written, and again for one that was lost"""
    lab, folder = alone, alone.folder
    assert "nobody owns" in lab.ctl("coordinators", "shares", "--to", "shares").err
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    (entry,) = lab.good("coordinators", "list", "--json").json["coordinators"]
    wanted = ("coordinators", "set", entry["coordinator_id"])
    said = lab.good(*wanted, "--seed-share-owner", "alice.pub", "--root-key", lab.roots, "--yes").out
    assert "gives alice a share of the seed" in said
    for _ in range(2):
        lab.good("coordinators", "shares", "--to", "shares")
        assert opened(folder / "shares/alice.share", folder / "alice.key") == seeds.load(folder / "state/keys", {})
        (folder / "shares/alice.share").unlink()
    lab.good("coordinators", "owner-key", "--out", "eve.key")
    ran = lab.ctl(*wanted, "--seed-share-owner", "eve.pub", "--root-key", lab.roots, "--yes")
    assert (ran.status, "the owners of the seed's shares are alice, and stay so" in ran.err) == (REFUSED, True)
    lab.good(*wanted, "--root-key", lab.roots, "--yes")
    assert list(lab.good("coordinators", "shares", "--to", "shares", "--json").json["shares"]) == ["alice"]
    assert lab.good("audit", "verify", "--json").json["good"]
    assert "seed_share.seal" in lab.good("audit").out


@pytest.mark.parametrize("name", ["../../alice", "/etc/alice", "bob", "..", "alice/x"])
def test_a_share_is_written_under_its_own_owners_name_alone(alone: Lab, tmp_path: Path, name: str) -> None:
    """threats D-59: whoever answers as a coordinator chooses no place on the operator's machine"""
    share = seed_share.seal(Seed.generate(), "prod", ALICE.public("alice")).to_bytes().decode()
    folder, socket = tmp_path / "a/b/shares", tmp_path / "spoilt.sock"
    with relay(alone.socket, socket, instead=lambda _: {"shares": {"alice": share, name: share}}):
        ran = alone.ctl("coordinators", "shares", "--to", folder, "--socket", socket)
    assert (ran.status, "gave as the share of" in ran.err) == (REFUSED, True), ran
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".share"] == []
    socket.unlink()
    with relay(alone.socket, socket, instead=lambda _: {"shares": {"alice": share}}):
        alone.good("coordinators", "shares", "--to", folder, "--socket", socket)
    assert [path.name for path in folder.iterdir()] == ["alice.share"]


def test_an_owners_key_that_was_stopped_is_made_by_the_same_command(tmp_path: Path) -> None:
    """rules H4: the private file is there and the public half is not: that one follows from it, under its passphrase"""
    lab = Lab(tmp_path)
    wanted = ("coordinators", "owner-key", "--out", "alice.key", "--encrypt")
    lab.good(*wanted, stdin="swordfish\n")
    private, public = tmp_path / "alice.key", tmp_path / "alice.pub"
    before = private.read_bytes(), public.read_bytes()
    public.unlink()
    wrong = lab.ctl(*wanted, stdin="sword\n")
    assert (wrong.status, "move it away" in wrong.err, public.exists()) == (REFUSED, True, False)
    said = lab.good(*wanted, stdin="swordfish\n")
    assert "there already" in said.out
    assert (private.read_bytes(), public.read_bytes()) == before
    # one that was cut off, and one that is not as it is wanted
    public.unlink()
    private.write_bytes(before[0][:40])
    cut = lab.ctl(*wanted, stdin="swordfish\n")
    assert (cut.status, "move it away" in cut.err, private.read_bytes()) == (REFUSED, True, before[0][:40])
    private.unlink()
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    public.unlink()
    plain = lab.ctl(*wanted, stdin="swordfish\n")
    assert (plain.status, "is not encrypted" in plain.err, public.exists()) == (REFUSED, True, False)
    lab.good("coordinators", "owner-key", "--out", "alice.key")
    lab.init("--seed-share-owner", "alice.pub")


def test_all_secrets_are_lost_and_one_owner_is_enough(tmp_path: Path) -> None:
    """rules H51, H31: what is wrong is named before anything is adopted; then a coordinator that lets nodes in"""
    lab = Lab(tmp_path)
    for name in ("alice", "bob", "eve"):
        lab.good("coordinators", "owner-key", "--out", f"{name}.key")
    lab.init("--seed-share-owner", "alice.pub", "--seed-share-owner", "bob.pub", "--shares-to", tmp_path / "shares")
    keys = tmp_path / "state/keys"
    seed = seeds.load(keys, {})
    wanted = ("coordinators", "recover", "--share", "shares/alice.share")
    lab.start()
    try:
        assert "nothing is missing" in lab.ctl(*wanted, "--key", "alice.key", "--yes").err
        former = lab.config_key().removeprefix("sha256:")[:12]
        assert former not in lab.good("coordinators", "status").out
        lab.stop()
        for path in (keys / "seed", keys / "identity.pem", *keys.glob("config-*.pem")):
            path.unlink()
        lab.start()
        assert "no signed history" not in lab.log()  # there is one, and what continues it is missing
        of_alice = (tmp_path / "shares/alice.share").read_text()
        for key, share, code, why in (
            ("bob.key", of_alice, "bad_share", "does not open with this key"),
            ("alice.key", "", "bad_share", "is empty"),
            ("alice.key", of_alice[:-9], "bad_share", "cut off"),
            ("alice.key", of_alice.replace('"prod"', '"test"'), "wrong_cluster", "of cluster test"),
            ("eve.key", of_alice.replace('"alice"', '"eve"'), "not_an_owner", "no owner"),
        ):
            (tmp_path / "wrong.share").write_text(share)
            ran = lab.ctl("coordinators", "recover", "--share", "wrong.share", "--key", key, "--yes")
            assert (ran.status, why in ran.err) == (REFUSED, True), ran
            assert ran.err.startswith(f"holdfastctl: {code}: "), ran
        assert not (keys / "seed").exists()
        assert lab.ctl(*wanted, "--key", "alice.key").status == UNCONFIRMED
        told = lab.good(*wanted, "--key", "alice.key", "--yes", "--request", "recover.json").out
        assert "epoch" in told and "keeps the coordinator coordinator-1" in told
        assert "not ready" in lab.ctl("coordinators", "status").out
        lab.good("trust", "sign", "recover.json", "--root-key", lab.roots, "--yes")
        lab.good("coordinators", "commit", "recover.json")
        assert seeds.load(keys, {}) == seed
        assert lab.good("epoch", "show").out.strip() == "2"
        said = lab.good("coordinators", "status").out  # the key that was lost: whoever finds it signs as well as ever
        assert f"holdfastctl rotate retire {former} --request retire.json" in said
        assert f"holdfastctl revoke key {former} --reason WHY --request revoke.json" in said
        lab.good("revoke", "key", former, "--reason", "a lost disk", "--root-key", lab.roots, "--yes")
        assert former not in lab.good("coordinators", "status").out
        lab.good("allow", "add", "node-b")
        lab.good("tokens", "create", "--node", "node-b", "--json")
        assert lab.good("audit", "verify", "--json").json["good"]
        for secret in (seed.seed.hex(), seed.salt.hex()):
            assert secret not in lab.log() + told
    finally:
        lab.stop()
