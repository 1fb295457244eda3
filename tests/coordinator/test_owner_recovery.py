"""The seed comes back from an owner, where no coordinator has it any more (rules H5, H31, H40, H51)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from coordinator.base.refusal import Code, Refused
from coordinator.database import history_check, schema
from coordinator.database.continuity import LinkMark
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.keys import identity, keystore, seed_recovery
from coordinator.keys import seed as seeds
from coordinator.keys.atomic_files import plain_file
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.seed_recovery import BroughtSeed, RecoveryPlace
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import moving, owner_recovery, peer_recovery, replica_reports, replicas
from coordinator.membership.moving import OtherCoordinator
from coordinator.membership.replica_reports import ReplicaReport
from coordinator.setup import configuration
from coordinator.setup.configuration import Configuration
from coordinator.trust import coordinator_set
from snapshot import canonical
from tests.coordinator import histories
from tests.coordinator.daemon import Running, running
from tests.coordinator.owners import ALICE, BOB, OWNERS, key_of
from tests.coordinator.sets import FIRST, NAMES, SECOND, THIRD, Coordinators
from wire.client import ClientError
from wire.operators.trust_messages import SeedRecovery

EVE = key_of(9)
NO_ROOTS = PinnedRootKeys()


@pytest.fixture
def at(tmp_path: Path, database_url: str) -> Iterator[Coordinators]:
    made = Coordinators(tmp_path, database_url, owners=OWNERS)
    yield made
    made.database.close()


def seed_of(at: Coordinators) -> Seed:
    found = seeds.load(at.keys, {})
    assert found is not None
    return found


def place_of(at: Coordinators) -> RecoveryPlace:
    return RecoveryPlace("prod", FIRST, at.manifest()[0])


def judge(at: Coordinators, brought: BroughtSeed) -> Seed:
    beside = Database(at.database.url)
    try:
        tried = peer_recovery.read_unverified(beside, FIRST)
        assert tried is not None
        return owner_recovery.judge(beside, tried, FIRST, brought, NO_ROOTS)
    finally:
        beside.close()


def refused(at: Coordinators, brought: BroughtSeed, code: Code) -> str:
    with pytest.raises(Refused) as caught:
        judge(at, brought)
    assert caught.value.code is code, caught.value
    assert judge(at, seed_recovery.sign(BOB, "bob", place_of(at), seed_of(at))) == seed_of(at)
    return caught.value.detail


def test_an_owner_whom_the_manifest_names_is_believed(at: Coordinators) -> None:
    """rules H51: any one of them; and the whole history verifies with it"""
    for name, key in (("alice", ALICE), ("bob", BOB)):
        brought = seed_recovery.sign(key, name, place_of(at), seed_of(at))
        assert judge(at, brought) == seed_of(at)
        assert seed_of(at).seed.hex() not in repr(brought)


def test_whom_it_does_not_name_is_not(at: Coordinators) -> None:
    """rules H5, H51: a stranger, a stranger under an owner's name, and one owner under another's"""
    place, seed = place_of(at), seed_of(at)
    assert "names alice, bob" in refused(at, seed_recovery.sign(EVE, "eve", place, seed), Code.NOT_AN_OWNER)
    for key in (EVE, ALICE):
        refused(at, seed_recovery.sign(key, "bob", place, seed), Code.NOT_AN_OWNER)


def test_what_was_signed_for_another_place_is_none(at: Coordinators) -> None:
    """rules H51: another coordinator, another cluster; and a manifest that is not the newest any more"""
    seed, place = seed_of(at), place_of(at)
    for other in (replace(place, coordinator_id=SECOND), replace(place, cluster_id="staging")):
        refused(at, seed_recovery.sign(ALICE, "alice", other, seed), Code.NOT_AN_OWNER)
    replicas.pin(at.database, THIRD, "sha256:" + "cd" * 32, actor="root", now=at.now)
    refused(at, seed_recovery.sign(ALICE, "alice", place, seed), Code.CONCURRENT_UPDATE)


@pytest.mark.parametrize("short", [b"", b"\x01" * 31, bytes(32), b"\x01" * 33], ids=["empty", "short", "zero", "long"])
def test_a_seed_that_is_none_is_refused(at: Coordinators, short: bytes) -> None:
    """rules H51: though an owner has signed it"""
    place, seed = place_of(at), seed_of(at)
    for members in ({"seed": short}, {"salt": short}):
        data = {"seed": seed.seed, "salt": seed.salt, **members}
        signature = ALICE.signing.sign(seed_recovery.message_of("alice", place, **data))
        refused(at, BroughtSeed("alice", place.manifest, signature=signature, **data), Code.BAD_SHARE)


@pytest.mark.parametrize("key", ["", "no key", 7, None, "AAAA"])
def test_an_owner_whose_key_is_out_of_form_is_none(at: Coordinators, key: object) -> None:
    """rules H51: the manifest is read before anybody can verify it"""
    beside = Database(at.database.url)
    tried = peer_recovery.read_unverified(beside, FIRST)
    said = canonical.loads(tried.content)
    forged = replace(tried, content=canonical.dumps({**said, "seed_share_owners": {"alice": key}}))
    place = replace(place_of(at), manifest=owner_recovery.manifest_hash(forged))
    with pytest.raises(Refused) as caught:
        owner_recovery.judge(beside, forged, FIRST, seed_recovery.sign(ALICE, "alice", place, seed_of(at)), NO_ROOTS)
    beside.close()
    assert caught.value.code is Code.NOT_AN_OWNER


def test_for_one_that_was_taken_away_meanwhile_no_owner_is_believed(at: Coordinators) -> None:
    """rules H51: before anything is adopted"""
    beside = Database(at.database.url)
    tried = peer_recovery.read_unverified(beside, "coord-9")
    place = replace(place_of(at), coordinator_id="coord-9")
    with pytest.raises(Refused) as caught:
        owner_recovery.judge(beside, tried, "coord-9", seed_recovery.sign(ALICE, "alice", place, seed_of(at)), NO_ROOTS)
    beside.close()
    assert caught.value.code is Code.NOT_IN_MANIFEST


def test_another_seed_does_not_verify_the_history(at: Coordinators) -> None:
    """rules H51: of another cluster, swapped with its salt, or made up"""
    seed = seed_of(at)
    for wrong in (Seed.generate(), Seed(seed.salt, seed.seed), histories.SEED):
        brought = seed_recovery.sign(ALICE, "alice", place_of(at), wrong)
        assert seed.history_key.key_id in refused(at, brought, Code.WRONG_SEED)


def test_a_history_with_a_hole_is_not_believed_by_the_right_seed_either(at: Coordinators) -> None:
    brought = seed_recovery.sign(ALICE, "alice", place_of(at), seed_of(at))
    at.database.is_tampered = True
    with at.database.engine.begin() as connection:
        connection.execute(delete(schema.transitions).where(schema.transitions.c.number == 2))
    with pytest.raises(Refused) as caught:
        judge(at, brought)
    assert caught.value.code is Code.UNTRUSTED_HISTORY


def test_a_link_says_who_brought_it_and_whom_the_manifest_knows_now(at: Coordinators) -> None:
    """rules H31: a transition of the owner's"""
    pin = "sha256:" + "ef" * 32
    owner_recovery.take_up(at.database, FIRST, pin, "alice", is_forced=False, about="coord-2 silent", now=at.now)
    assert at.manifest()[1]["coordinators"][FIRST]["certificate_sha256"] == pin
    with at.database.read() as transaction:
        row = transaction.rows(select(schema.audit).where(schema.audit.c.action == "coordinator.recover_by_owner"))[0]
    assert (row.actor, row.subject, "coord-2 silent" in row.after) == ("owner:alice", FIRST, True)
    with pytest.raises(Refused) as caught:
        owner_recovery.take_up(at.database, "coord-9", pin, "alice", is_forced=False, about="", now=at.now)
    assert (caught.value.code, "coord-1, coord-2, coord-3" in caught.value.detail) == (Code.NOT_IN_MANIFEST, True)


# ---- a coordinator that runs


@dataclass
class Machine:
    """Of one of them, without what `lose` takes away."""

    at: Coordinators
    settings: str = ""
    listen: str = ""
    name: str = FIRST
    folder: Path = Path()

    def __post_init__(self) -> None:
        self.folder = self.folder if self.folder != Path() else self.at.keys.parent

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def socket(self) -> Path:
        return self.folder / "admin.sock"

    def configuration(self) -> Configuration:
        url = self.at.database.url.render_as_string(hide_password=False)
        return configuration.parse(
            f"""
coordinator_id = "{self.name}"
[database]
url = "{url}"
[listen]
fleet = "127.0.0.1:0"
join = "127.0.0.1:0"
probes = "127.0.0.1:0"
admin_socket = "{self.socket}"
{self.listen}
[tls]
certificate = "{self.folder}/tls/server.pem"
key = "{self.folder}/tls/server-key.pem"
[keys]
directory = "{self.keys}"
token = "{self.keys}/token.pem"
{self.settings}
"""
        )

    def lose(self, *more: str) -> Seed:
        """The seed, and all config keys."""
        seed = seed_of(self.at)
        names = [seeds.FILE, *(path.name for path in keystore.files(self.at.keys, "config")), *more]
        for name in names:
            (self.at.keys / name).unlink()
        return seed


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(Coordinators(tmp_path, f"sqlite:///{tmp_path}/state/state.db", owners=OWNERS))
    yield made
    made.at.database.close()


def alone(machine: Machine) -> None:
    for name in (SECOND, THIRD):
        replicas.remove(machine.at.database, name, answering=FIRST, actor="root", now=machine.at.now)


async def body_of(at: Running, seed: Seed, **members: object) -> dict:
    """What `holdfastctl coordinators recover` sends for alice."""
    asked = await at.ask("GET", "/v1/coordinators/recover")
    place = RecoveryPlace(asked["cluster_id"], asked["coordinator_id"], asked["manifest"])
    brought = seed_recovery.sign(ALICE, "alice", place, seed)
    return SeedRecovery(**{**vars(brought), **members}).to_value()


async def recover(at: Running, seed: Seed, **members: object) -> str:
    body = await body_of(at, seed, **members)
    return (await at.ask("POST", "/v1/coordinators/recover", body))["request"]


async def not_recovered(at: Running, machine: Machine, seed: Seed, code: Code, **members: object) -> str:
    """Nothing was adopted."""
    with pytest.raises(ClientError) as caught:
        await recover(at, seed, **members)
    assert caught.value.code == code.value, caught.value
    assert not (machine.at.keys / seeds.FILE).exists()
    assert keystore.config_keys(machine.at.keys, {}) == ()
    return str(caught.value)


async def commit(at: Running, machine: Machine, request: str) -> None:
    made = coordinator_set.read(request)
    for key in machine.at.roots[:2]:
        made = made.with_signature(key)
    await at.ask("POST", "/v1/coordinators/commit", {"set": made.to_text()})


def started(machine: Machine) -> Callable[[], object]:
    return lambda: running(machine, now=lambda: machine.at.now)


async def test_it_is_ready_once_root_keys_have_listed_the_mesh_key(machine: Machine) -> None:
    """rules H31, H49, H17: with a higher epoch, and the identity that it has now; not by the owner alone"""
    alone(machine)
    seed = machine.lose(identity.FILE)
    machine.at.now += 60
    async with started(machine)() as at:
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 503
        assert (await at.ask("GET", "/v1/coordinators/recover"))["lacks"] == "the seed"
        request = await recover(at, seed)
        await at.daemon.keeper.look()
        assert seeds.load(machine.at.keys, {}) == seed
        assert (await at.probe("/probe/readiness"))[0] == 503
        made = coordinator_set.read(request)
        assert [line for line in made.changes() if "epoch" in line]
        await commit(at, machine, request)
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200
        assert (await at.ask("GET", "/v1/status"))["authority_epoch"] == 2
        own = identity.load(machine.at.keys, {})
        assert machine.at.manifest()[1]["coordinators"][FIRST]["certificate_sha256"] == identity.pin_of(own)
        assert machine.at.manifest()[1]["mesh_key"] == made.mesh_key
        node = await at.ask("POST", "/v1/allowlist/node-b", {})
        assert node
        with pytest.raises(ClientError) as caught:
            await recover(at, seed)
        assert (caught.value.code, "nothing is missing" in str(caught.value)) == ("conflict", True)
        rows = (await at.ask("GET", "/v1/audit"))["entries"]
        assert [row["actor"] for row in rows if row["action"] == "coordinator.recover_by_owner"] == ["owner:alice"]
        assert (await at.ask("GET", "/v1/audit/verify"))["faults"] == []
    mark = LinkMark()
    while (after := history_check.walk(machine.at.database, mark)) != mark:
        mark = after


async def test_a_request_that_was_lost_is_made_again(machine: Machine) -> None:
    """Also over a restart: until root keys have signed, an owner may come again"""
    alone(machine)
    seed = machine.lose()
    async with started(machine)() as at:
        await recover(at, seed)
    async with started(machine)() as at:
        assert (await at.ask("GET", "/v1/coordinators/recover"))["lacks"] == "the mesh key of the manifest"
        request = await recover(at, seed)
        await commit(at, machine, request)
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200


async def test_in_memory_alone_a_restart_is_recovery_again(machine: Machine) -> None:
    """rules H4, H17: `keep_secrets` is off, so nothing is written, and it is ready all the same"""
    alone(machine)
    seed = machine.lose()
    machine.settings = "[settings]\nkeep_secrets = false"
    async with started(machine)() as at:
        await commit(at, machine, await recover(at, seed))
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200
        await at.ask("POST", "/v1/allowlist/node-b", {})
        await at.ask("POST", "/v1/coordinators/shares", {})
    assert not (machine.keys / seeds.FILE).exists()
    assert keystore.config_keys(machine.keys, {}) == ()
    async with started(machine)() as at:
        assert (await at.ask("GET", "/v1/coordinators/recover"))["lacks"] == "the seed"
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 503


async def test_what_is_wrong_changes_nothing_and_the_right_one_goes_through(machine: Machine) -> None:
    """rules H51, H5: at the coordinator"""
    alone(machine)
    seed = machine.lose()
    async with started(machine)() as at:
        await not_recovered(at, machine, Seed.generate(), Code.WRONG_SEED)
        await not_recovered(at, machine, Seed(seed.salt, seed.seed), Code.WRONG_SEED)
        await not_recovered(at, machine, seed, Code.NOT_AN_OWNER, owner="bob")
        await not_recovered(at, machine, seed, Code.NOT_AN_OWNER, owner="eve")
        await not_recovered(at, machine, seed, Code.NOT_AN_OWNER, signature=b"")
        await not_recovered(at, machine, seed, Code.CONCURRENT_UPDATE, manifest="00" * 32)
        (machine.at.keys / seeds.FILE).write_bytes(Seed.generate().to_bytes())
        (machine.at.keys / seeds.FILE).chmod(0o600)
        with pytest.raises(ClientError) as caught:
            await recover(at, seed)
        assert "another seed lies here" in str(caught.value)
        (machine.at.keys / seeds.FILE).unlink()
        await commit(at, machine, await recover(at, seed))
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200


async def test_a_database_of_other_root_keys_is_not_believed_for_its_own_owner(machine: Machine) -> None:
    """rules H50: whoever exchanges all of the database has a seed and an owner of their own in it; not the root keys"""
    alone(machine)
    machine.settings = configuration.trust_table(PinnedRootKeys((SigningKey.generate().key_id,), 1))
    seed = machine.lose()
    async with started(machine)() as at:
        said = await not_recovered(at, machine, seed, Code.UNTRUSTED_HISTORY)
        assert "root keys that are named here" in said
    machine.settings = configuration.trust_table(PinnedRootKeys(tuple(key.key_id for key in machine.at.roots), 2))
    async with started(machine)() as at:
        await commit(at, machine, await recover(at, seed))
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200


async def test_where_the_cluster_has_gone_elsewhere_no_seed_is_left(machine: Machine) -> None:
    """rules H51: it would be of no use"""
    alone(machine)
    away = OtherCoordinator("coord-b", "https://b.example:7443", "sha256:" + "ef" * 32)
    moving.begin(machine.at.database, away, actor="root", now=machine.at.now)
    seed = machine.lose()
    async with started(machine)() as at:
        await not_recovered(at, machine, seed, Code.MOVED)
    machine.at.database.history = LinkedHistory(seed.history_key)
    moving.cancel(machine.at.database, actor="root", now=machine.at.now)
    async with started(machine)() as at:
        await commit(at, machine, await recover(at, seed))


def report(machine: Machine, name: str, reason: str = "", ago: float = 0.0) -> None:
    said = machine.at.now - ago
    replica_reports.note(machine.at.database, ReplicaReport(name, said, said, "0.1.0", "sha256:" + "00" * 32, reason))


async def test_another_one_that_is_ready_is_asked_and_no_owner(machine: Machine) -> None:
    """rules H40: unless by force, which the audit log has"""
    report(machine, SECOND)
    report(machine, THIRD, "no room")
    seed = machine.lose()
    async with started(machine)() as at:
        said = await not_recovered(at, machine, seed, Code.PEERS_READY)
        assert f"{SECOND} said" in said
        report(machine, SECOND, ago=3600)
        said = await not_recovered(at, machine, seed, Code.PEERS_UNKNOWN)
        assert f"{SECOND}, {THIRD} cannot be asked: [listen] coordinators is not set here" in said
        report(machine, SECOND)
        await commit(at, machine, await recover(at, seed, force=True))
        rows = (await at.ask("GET", "/v1/audit"))["entries"]
        (row,) = (row for row in rows if row["action"] == "coordinator.recover_by_owner")
        assert row["after"]["is_forced"] is True
        assert set(machine.at.manifest()[1]["coordinators"]) == set(NAMES)


async def test_a_set_of_coordinators_that_cannot_be_listed_is_unknown(machine: Machine) -> None:
    """rules H40: their identities are not in the database, so nobody can be asked; all silent is no obstacle"""
    machine.listen = 'coordinators = "127.0.0.1:0"'
    seed = machine.lose()
    async with started(machine)() as at:
        said = await not_recovered(at, machine, seed, Code.PEERS_UNKNOWN)
        assert "their identities are not in the database" in said
        for name in (SECOND, THIRD):
            made = identity.generate(name, machine.at.now)
            machine.at.database.history = LinkedHistory(seed.history_key)
            replicas.pin(machine.at.database, name, identity.pin_of(made), actor="root", now=machine.at.now)
            peer_recovery.publish(machine.at.database, made.der, now=machine.at.now)
        machine.settings = ""
        await commit(at, machine, await recover(at, seed))


@pytest.fixture
def pair(tmp_path: Path, postgresql_url: str) -> Iterator[tuple[Machine, Machine]]:
    """Two machines with identities that know each other."""
    at = Coordinators(tmp_path, postgresql_url, owners=OWNERS)
    replicas.remove(at.database, THIRD, answering=FIRST, actor="root", now=at.now)
    listen = 'coordinators = "127.0.0.1:0"'
    one, two = Machine(at, listen=listen), Machine(at, listen=listen, name=SECOND, folder=tmp_path / "two")
    two.keys.mkdir(parents=True, mode=0o700)
    (two.folder / "tls").symlink_to(one.folder / "tls")
    own = identity.generate(SECOND, at.now)
    for name, data in ((identity.FILE, identity.to_bytes(own)), ("token.pem", SigningKey.generate().to_pem())):
        plain_file(data)(two.keys / name)
    replicas.pin(at.database, SECOND, identity.pin_of(own), actor="root", now=at.now)
    yield one, two
    at.database.close()


async def test_the_others_follow_without_an_operator(pair: tuple[Machine, Machine]) -> None:
    """rules H31, H2, H41, H6: all have lost everything, one is recovered, and the other gets seed and mesh key from it,
    which is of that manifest
    """
    one, two = pair
    seed = one.lose()
    one.at.now += 60
    async with running(one, now=lambda: one.at.now) as first:
        two.settings = f'[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        two.settings += configuration.trust_table(PinnedRootKeys(tuple(key.key_id for key in one.at.roots)))
        async with running(two, now=lambda: one.at.now) as other:
            assert not await other.daemon.recovering.attempt()
            await commit(first, one, await recover(first, seed))
            assert await first.daemon.recovering.attempt()
            assert await other.daemon.recovering.attempt()
            for at in (first, other):
                await at.daemon.keeper.look()
                assert (await at.probe("/probe/readiness"))[0] == 200
            assert seeds.load(two.keys, {}) == seed
            (key,) = keystore.config_keys(two.keys, {})
            assert key.key_id == one.at.manifest()[1]["mesh_key"]
            await other.ask("POST", "/v1/allowlist/node-b", {})


async def test_a_coordinator_of_before_goes_stale_and_follows(pair: tuple[Machine, Machine]) -> None:
    """rules H31: one that works still; by force. It changes and signs nothing until it has the new mesh key"""
    one, two = pair
    for name in (seeds.FILE, *(path.name for path in keystore.files(one.keys, "config"))):
        plain_file((one.keys / name).read_bytes())(two.keys / name)
    seed = one.lose()
    one.at.now += 60
    async with running(one, now=lambda: one.at.now) as first:
        two.settings = f'[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        two.settings += configuration.trust_table(PinnedRootKeys(tuple(key.key_id for key in one.at.roots)))
        async with running(two, now=lambda: one.at.now) as other:
            await other.daemon.keeper.look()
            await other.daemon.own_report.note()
            assert (await other.probe("/probe/readiness"))[0] == 200
            await not_recovered(first, one, seed, Code.PEERS_READY)
            request = await recover(first, seed, force=True)
            await other.daemon.keeper.look()
            assert (await other.probe("/probe/readiness"))[0] == 200  # an owner alone stops nobody
            await commit(first, one, request)
            await other.daemon.keeper.look()
            status, said = await other.probe("/probe/readiness")
            assert (status, b"recovery_mode" in said) == (503, True)
            await first.daemon.recovering.attempt()
            await other.ask("POST", "/v1/allowlist/node-b", {})  # it asks the first one, and is made
            assert one.at.manifest()[1]["mesh_key"] in {key.key_id for key in keystore.config_keys(two.keys, {})}
            await other.daemon.keeper.look()
            assert (await other.probe("/probe/readiness"))[0] == 200
