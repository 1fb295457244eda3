"""A coordinator gets the seed and the mesh key from another one, and from nobody else (rules H7, H26, H27, H30, H44,
H46, H47).
"""

import resource
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing
from sqlalchemy import delete, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import history, object_store, schema
from coordinator.database.cluster_state import Founding
from coordinator.database.database import Database
from coordinator.database.history import LinkedHistory
from coordinator.database.own_entry import OwnEntry
from coordinator.keys import identity, keystore, signer, signing_key
from coordinator.keys import seed as seeds
from coordinator.keys.own_secrets import OwnSecrets
from coordinator.keys.pinned_root_keys import PinnedRootKeys
from coordinator.keys.seed import Seed
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import peer_recovery, replicas
from coordinator.membership.peer_recovery import Secrets, UnverifiedManifest
from coordinator.membership.recover_messages import RecoverAnswer, RecoverRequest
from coordinator.runtime import recovering
from coordinator.runtime.recovering import _keep
from coordinator.setup import begin_history, configuration, pin_identity
from coordinator.setup.opening import with_history
from snapshot import canonical
from tests.coordinator import entered
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.coordinator.owners import OWNERS
from tests.coordinator.sets import FIRST, SECOND, THIRD, Coordinators
from tests.world.ports import free_ports
from wire.certificate import fingerprint
from wire.client import ClientError, Deadlines
from wire.messages import BadMessageError

NONCE = "ab" * 32


@pytest.fixture
def at(tmp_path: Path, database_url: str) -> Iterator[Coordinators]:
    made = Coordinators(tmp_path, database_url)
    yield made
    made.database.close()


def pin_of(at: Coordinators, name: str) -> str:
    return replicas.identity_of(at.database, name)


def hand_over(at: Coordinators, name: str = SECOND, pin: str | None = None, keys: int = 1) -> RecoverAnswer:
    held = keystore.config_keys(at.keys, {})[:keys]
    seed = seeds.load(at.keys, {})
    return peer_recovery.hand_over(at.database, name, pin_of(at, SECOND) if pin is None else pin, NONCE, seed, held)


def tried(at: Coordinators) -> UnverifiedManifest:
    found = peer_recovery.read_unverified(at.database, SECOND)
    assert found is not None
    return found


def pins_of(at: Coordinators) -> PinnedRootKeys:
    return PinnedRootKeys(tuple(key.key_id for key in at.roots), 2)


def judge(
    at: Coordinators,
    manifest: UnverifiedManifest,
    received: RecoverAnswer,
    nonce: str = NONCE,
    pins: PinnedRootKeys | None = None,
    held: Seed | None = None,
) -> Secrets:
    beside = Database(at.database.url)
    try:
        return peer_recovery.judge(beside, manifest, nonce, received, pins_of(at) if pins is None else pins, held)
    finally:
        beside.close()


def refused(call: Callable[[], object], code: Code) -> str:
    with pytest.raises(Refused) as caught:
        call()
    assert caught.value.code is code, caught.value
    return caught.value.detail


def outside(at: Coordinators, *statements: object) -> None:
    at.database.is_tampered = True
    with at.database.engine.begin() as connection:
        for statement in statements:
            connection.execute(statement)


# ---- who is asked


def test_a_coordinator_of_the_manifest_is_given_all_of_it(at: Coordinators) -> None:
    found = judge(at, tried(at), hand_over(at))
    assert found.seed == seeds.load(at.keys, {})
    assert found.mesh_key.key_id == tried(at).mesh_key == keystore.config_keys(at.keys, {})[0].key_id
    assert "PRIVATE" not in repr(found) + repr(hand_over(at))
    assert found.seed.seed.hex() not in repr(found)


@pytest.mark.parametrize("name", ["coord-9", THIRD, FIRST])
def test_whom_the_manifest_does_not_name_so_is_given_nothing(at: Coordinators, name: str) -> None:
    """Not in it, or by another certificate than the one that was shown"""
    assert "names no coordinator" in refused(lambda: hand_over(at, name, pin_of(at, SECOND)), Code.PERMISSION_DENIED)
    refused(lambda: hand_over(at, SECOND, ""), Code.PERMISSION_DENIED)


def test_who_was_taken_away_is_given_nothing(at: Coordinators) -> None:
    """Though an older manifest names it"""
    pin = pin_of(at, SECOND)
    hand_over(at)
    replicas.remove(at.database, SECOND, answering=FIRST, actor="root", now=at.now)
    refused(lambda: hand_over(at, SECOND, pin), Code.PERMISSION_DENIED)


def test_one_that_is_not_ready_itself_sends_nothing(at: Coordinators) -> None:
    """rules H46: without the mesh key of the manifest, without the seed, or taken away"""
    refused(lambda: hand_over(at, keys=0), Code.STALE_STATE)
    kept = at.database.history
    at.database.history = None
    refused(lambda: hand_over(at), Code.STALE_STATE)
    at.database.history = LinkedHistory(kept.key, OwnEntry("coord-9", ""))
    refused(lambda: hand_over(at), Code.NOT_IN_MANIFEST)


# ---- who asks


def test_a_server_of_another_manifest_is_found_in_step_4(at: Coordinators) -> None:
    """rules H44"""
    received = hand_over(at)
    replicas.pin(at.database, THIRD, "sha256:" + "cd" * 32, actor="root", now=at.now)
    assert "peer is of another" in refused(lambda: judge(at, tried(at), received), Code.MANIFEST_MISMATCH)
    judge(at, tried(at), hand_over(at))


def test_a_server_whose_manifest_has_other_owners_is_not_believed(tmp_path: Path) -> None:
    """rules H5: the seed comes from a coordinator whose manifest lists exactly the same owners"""
    at = Coordinators(tmp_path, f"sqlite:///{tmp_path}/state.db", owners=OWNERS)
    try:
        received = hand_over(at)
        manifest = canonical.loads(received.manifest)
        for owners in ({}, {**manifest["seed_share_owners"], "eve": OWNERS[0].key}):
            other = canonical.dumps({**manifest, "seed_share_owners": owners})
            refused(lambda other=other: judge(at, tried(at), replace(received, manifest=other)), Code.MANIFEST_MISMATCH)
        assert judge(at, tried(at), received).seed == seeds.load(at.keys, {})
    finally:
        at.database.close()


def test_a_store_that_moves_on_meanwhile_is_found_in_step_7(at: Coordinators) -> None:
    """rules H44"""
    before, received = tried(at), hand_over(at)
    replicas.pin(at.database, THIRD, "sha256:" + "cd" * 32, actor="root", now=at.now)
    assert "has moved on" in refused(lambda: judge(at, before, received), Code.MANIFEST_MISMATCH)


def test_a_history_that_does_not_verify_with_what_came_is_not_believed(at: Coordinators) -> None:
    """Another seed, a hole, a fork; and a changed object"""
    received = hand_over(at)
    other = Seed.generate()
    forged = replace(received, seed=other.seed, salt=other.salt)
    refused(lambda: judge(at, tried(at), forged), Code.UNTRUSTED_HISTORY)
    table = schema.transitions
    with at.database.engine.connect() as connection:
        rows = connection.execute(table.select().order_by(table.c.number)).all()
    hole = table.c.number == rows[1].number
    outside(at, delete(table).where(hole))
    refused(lambda: judge(at, tried(at), received), Code.UNTRUSTED_HISTORY)
    outside(at, table.insert().values(number=rows[1].number, transition=rows[0].transition))
    refused(lambda: judge(at, tried(at), received), Code.UNTRUSTED_HISTORY)
    outside(at, update(table).where(hole).values(transition=rows[1].transition))
    judge(at, tried(at), received)
    fork = LinkedHistory(other.history_key).sign("prod", rows[-1].transition)
    outside(at, update(schema.pointers).values(fork._asdict()))
    refused(lambda: judge(at, tried(at), received), Code.UNTRUSTED_HISTORY)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"seed": b""}, "seed"),
        ({"seed": b"\x01" * 31}, "seed"),
        ({"salt": bytes(32)}, "salt"),
        ({"mesh_key": b"key"}, "mesh key"),
        ({"mesh_key": SigningKey.generate().to_pem()}, "not the mesh key"),
        ({"nonce": "cd" * 32}, "another exchange"),
    ],
)
def test_what_is_short_or_of_another_exchange_is_refused(tmp_path: Path, members: dict[str, bytes], why: str) -> None:
    """rules H30, H47"""
    at = Coordinators(tmp_path, f"sqlite:///{tmp_path}/state.db")
    try:
        received = replace(hand_over(at), **members)
        assert why in refused(lambda: judge(at, tried(at), received), Code.BAD_REQUEST)
    finally:
        at.database.close()


def test_a_message_has_each_member_and_no_other() -> None:
    """rules H30"""
    assert RecoverRequest.parse(RecoverRequest(NONCE).to_bytes()).nonce == NONCE
    for body in (b"{}", b'{"nonce":"ab"}', b'{"nonce":"' + NONCE.encode() + b'","more":1}'):
        with pytest.raises(BadMessageError):
            RecoverRequest.parse(body)
    with pytest.raises(BadMessageError, match="lacks"):
        RecoverAnswer.parse(b'{"nonce":"' + NONCE.encode() + b'"}')


# ---- two of them


@pytest.fixture
def pair(tmp_path: Path, postgresql_url: str) -> tuple[Founded, Founded]:
    return made_pair(tmp_path, postgresql_url)


def made_pair(tmp_path: Path, postgresql_url: str, ahead_s: float = 0) -> tuple[Founded, Founded]:
    """The second one has an identity, a token key and a certificate, and neither the seed nor a config key. `ahead_s`:
    how far its clock was ahead of the first one's when it made its identity, or behind.
    """
    (tmp_path / "one").mkdir()
    listen = 'coordinators = "127.0.0.1:0"'
    one = Founded(tmp_path / "one", postgresql_url, settings="store_polling_s = 1", listen=listen)
    begin_history.begin(one.configuration(), anew=False, actor="root", now=one.now)
    pin_identity.pin(one.configuration(), anew=False, actor="root", now=one.now)
    folder = tmp_path / "two"
    (folder / "keys").mkdir(parents=True, mode=0o700)
    for name in ("ca.pem", "server.crt", "server.key"):
        (folder / name).symlink_to(one.folder / name)
    token_key, own = SigningKey.generate(), identity.generate("coord-2", one.now + ahead_s)
    signing_key.write_file(folder / "token.pem", token_key)
    (folder / "keys" / identity.FILE).write_bytes(identity.to_bytes(own))
    (folder / "keys" / identity.FILE).chmod(0o600)
    two = object.__new__(Founded)
    pins = PinnedRootKeys(tuple(key.key_id for key in one.bundles.roots))
    settings = one.settings + configuration.trust_table(pins)
    two.__dict__.update(one.__dict__, folder=folder, coordinator_id="coord-2", settings=settings)
    database = with_history(Database(postgresql_url), one.folder / "keys")
    shown = signer.content_hash(one.certificate.der)
    founding = Founding("prod", "coord-2", "https://localhost:7444", shown, token_key.public_key, identity.pin_of(own))
    entered.add(database, founding, actor="root", now=one.now)
    database.close()
    return one, two


async def test_a_further_coordinator_becomes_ready_and_nobody_carried_a_secret(pair: tuple[Founded, Founded]) -> None:
    """rules H25: neither ready nor able to change anything before; both afterwards"""
    one, two = pair
    one.settings = one.settings.replace("store_polling_s = 1", "store_polling_s = 300")  # it learns when it is told to
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            keys, recovering = two.folder / "keys", other.daemon.recovering
            await other.daemon.keeper.look()
            assert (await other.probe("/probe/readiness"))[0] == 503
            assert not await recovering.attempt()  # the first one has not met it yet: its TLS lets nobody in
            assert not (keys / seeds.FILE).exists()
            assert await first.daemon.recovering.attempt()
            assert await recovering.attempt()
            assert (keys / seeds.FILE).read_bytes() == (one.folder / "keys" / seeds.FILE).read_bytes()
            assert {stat.S_IMODE(path.stat().st_mode) for path in keys.iterdir()} == {0o600}
            (key,) = keystore.config_keys(keys, {})
            assert key.key_id == one.config.key_id
            await other.daemon.keeper.look()
            assert (await other.probe("/probe/readiness"))[0] == 200
            await other.ask("POST", "/v1/allowlist/node-b", {})
            assert (await other.ask("GET", "/v1/audit/verify"))["faults"] == []
            rows = (await other.ask("GET", "/v1/audit"))["entries"]
            assert [row["subject"] for row in rows if row["action"] == "coordinator.recover"] == ["coord-2"]
            replicas.remove(
                first.daemon.coordinator.database, "coord-2", answering="coord-1", actor="root", now=one.now
            )
            (keys / keystore.file_name("config", key)).unlink()
            other.daemon.coordinator.publisher.sign_with(())
            assert await recovering.attempt()  # it is not named, so it asks nobody
            assert keystore.config_keys(keys, {}) == ()


async def test_what_is_asked_before_a_key_has_come_waits_for_it(pair: tuple[Founded, Founded]) -> None:
    """rules H21, H25: the call that would be refused has the others asked, once, however many there are; where they
    cannot be, each call after it is refused at once, and may be repeated
    """
    one, two = pair
    one.settings = one.settings.replace("store_polling_s = 1", "store_polling_s = 300")  # it learns when it is told to
    two.settings = two.settings.replace("store_polling_s = 1", "store_polling_s = 300")
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            await other.daemon.recovering.attempt()  # it says who it is
            assert await first.daemon.recovering.attempt()
            assert await other.daemon.recovering.attempt()
            lose_keys(two, other)
            await other.ask("POST", "/v1/allowlist/node-b", {})
            assert keystore.config_keys(two.folder / "keys", {}) != ()
            first.daemon.coordinator.publisher.sign_with(())  # it has nothing to give
            lose_keys(two, other)
            asked = []
            other.daemon.coordinator.peers.ask = counting(other.daemon.recovering.attempt, asked)
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(ask_in_vain, other)
            await ask_in_vain(other)
            assert asked == [False]


async def ask_in_vain(other: Running) -> None:
    with pytest.raises(ClientError) as refused:
        await other.ask("POST", "/v1/allowlist/node-c", {})
    assert (refused.value.status, refused.value.code) == (503, "recovery_mode")
    assert refused.value.retry_after_s is not None


def counting(attempt: Callable[[], Awaitable[bool]], asked: list[bool]) -> Callable[[], Awaitable[bool]]:
    async def count() -> bool:
        asked.append(await attempt())
        return asked[-1]

    return count


def lose_keys(founded: Founded, at: Running) -> None:
    """As of one that was not there when a set was committed elsewhere."""
    for file in (founded.folder / "keys").glob("config-*.pem"):
        file.unlink()
    at.daemon.coordinator.publisher.sign_with(())


@pytest.mark.parametrize("hours", [-9, 9])
async def test_clocks_that_were_hours_apart_keep_nobody_out(tmp_path: Path, postgresql_url: str, hours: int) -> None:
    """rules H25, H26: a pin says whose an identity is, by whichever clock it was made"""
    one, two = made_pair(tmp_path, postgresql_url, hours * 3600)
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            assert not await other.daemon.recovering.attempt()  # it has only just said which its identity is
            assert await first.daemon.recovering.attempt()
            assert await other.daemon.recovering.attempt()
            (key,) = keystore.config_keys(two.folder / "keys", {})
            assert key.key_id == one.config.key_id


def forge(database: Database, manifest: bytes) -> history.Pointer:
    """Another manifest under the newest link, as whoever can write there may do; the pointer of before."""
    with database.record() as transaction:
        before = object_store.pointer(transaction, history.LATEST)
        (key,) = object_store.put_all(transaction, history.MANIFESTS, [manifest])
        said = history.Transition(key.rpartition("/")[2], "00" * 32, before.value, 99).to_bytes()
        (key,) = object_store.put_all(transaction, history.TRANSITIONS, [said])
        transaction.run(update(schema.pointers).values(before._replace(value=key.rpartition("/")[2])._asdict()))
    return before


def point(database: Database, to: history.Pointer) -> None:
    with database.engine.begin() as connection:
        connection.execute(update(schema.pointers).values(to._asdict()))


NO_MANIFESTS = (
    b"not json",
    b"[]",
    b'{"coordinators":{}}',
    b'{"coordinators":{"coord-1":[]},"mesh_key":""}',
    b'{"coordinators":{"coord-1":{"certificate_sha256":"","roles":["coordinator"]}},"mesh_key":""}',
)


async def test_a_manifest_out_of_form_ends_nothing(pair: tuple[Founded, Founded]) -> None:
    """rules H27: it is read before anybody can verify it; nothing is adopted, and the next one is read as ever"""
    one, two = pair
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        looks = first.daemon.recovering._one  # held, it meets nobody: the other would rightly recover in between
        await looks.acquire()
        async with running(two) as other:
            recovering, database = other.daemon.recovering, first.daemon.coordinator.database
            await recovering._publish()
            for manifest in NO_MANIFESTS:
                before = forge(database, manifest)
                assert not await recovering.attempt()
                assert not (two.folder / "keys" / seeds.FILE).exists()
                point(database, before)
            looks.release()
            await first.daemon.keeper.look()  # it has seen what was forged as well, it may be, and is not ready by that
            await first.daemon.recovering.attempt()
            assert await recovering.attempt()


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Each file that is written meanwhile ends after so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_what_was_half_written_is_in_nobodys_way(pair: tuple[Founded, Founded]) -> None:
    """rules J34: a disk that is full in the middle of the seed, and in the middle of the key"""
    one, two = pair
    keys, seed = two.folder / "keys", seeds.load(one.folder / "keys", {})
    found = Secrets(seed, one.config)
    with full_disk(len(seed.to_bytes()) // 2), pytest.raises(OSError, match="too large"):
        _keep(OwnSecrets(keys, {}), found)
    _keep(OwnSecrets(keys, {}), found)
    (keys / keystore.file_name("config", one.config)).unlink()
    with full_disk(len(one.config.to_pem()) // 2), pytest.raises(OSError, match="too large"):
        _keep(OwnSecrets(keys, {}), found)
    (keys / seeds.FILE).unlink()
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            await other.daemon.recovering._publish()
            await first.daemon.recovering.attempt()
            assert await other.daemon.recovering.attempt()
    assert seeds.load(keys, {}) == seed
    assert [key.key_id for key in keystore.config_keys(keys, {})] == [one.config.key_id]


async def test_a_stranger_and_one_that_was_taken_away_are_not_let_in(pair: tuple[Founded, Founded]) -> None:
    one, two = pair
    async with running(one) as first:
        database = first.daemon.coordinator.database
        own = identity.load(two.folder / "keys", {})
        peer_recovery.publish(database, own.der, now=one.now)
        await first.daemon.recovering.attempt()
        table = first.daemon.recovering._table
        assert {pin.fingerprint for pin in table} == {fingerprint(own.der)}
        replicas.remove(database, "coord-2", answering="coord-1", actor="root", now=one.now)
        await first.daemon.recovering.attempt()
        assert not list(table)


# ---- whom it asks, and when


def asked_of(other: Running) -> str:
    return other.daemon.coordinator.standstill.recovery


async def test_one_after_the_other_is_asked_and_the_first_success_ends_it(pair: tuple[Founded, Founded]) -> None:
    """rules H22, H28, H43: nobody listens at the first place, the second one is good; what was said of each is told"""
    one, two = pair
    (closed,) = free_ports(1)
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{closed}, 127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            await other.daemon.recovering.attempt()
            await first.daemon.recovering.attempt()
            assert await other.daemon.recovering.attempt()
            assert asked_of(other) == ""
            (other.daemon.coordinator.keys_directory / seeds.FILE).stat()


async def test_one_that_never_answers_is_passed_over(
    pair: tuple[Founded, Founded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules H28, H43: it takes the connection and says nothing; the wait has an end, and the next place is good"""
    one, two = pair
    one.settings = one.settings.replace("store_polling_s = 1", "store_polling_s = 300")  # it learns when it is told to
    monkeypatch.setattr(recovering, "DEADLINES", Deadlines(connect_s=0.5, first_byte_s=0.5, silence_s=1, rate_from_s=1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f"127.0.0.1:{silent.getsockname()[1]}"
        async with running(one) as first:
            two.settings += f'\n[peers]\nask = "{there}, 127.0.0.1:{first.ports.coordinators}"'
            async with running(two) as other:
                assert not await other.daemon.recovering.attempt()
                assert f"coord-1 at https://{there}: " in asked_of(other)
                assert not (two.folder / "keys" / seeds.FILE).exists()
                await first.daemon.recovering.attempt()
                with trio.fail_after(120):  # a busy machine may miss what the good place is given, too
                    while not await other.daemon.recovering.attempt():
                        pass
                assert (two.folder / "keys" / seeds.FILE).exists()


async def test_where_all_fail_it_says_whom_it_asked_and_tries_again(pair: tuple[Founded, Founded]) -> None:
    """rules H25, H28, H29, H43: from step 1 each time, until it is cancelled; without a peer it fails as well"""
    one, two = pair
    (closed,) = free_ports(1)
    two.settings += f'\n[peers]\nask = "127.0.0.1:{closed}"'
    async with running(one) as first, running(two) as other:
        recovering = other.daemon.recovering
        for _ in range(2):
            assert not await recovering.attempt()
            assert f"coord-1 at https://127.0.0.1:{closed}: connect_failed" in asked_of(other)
        await other.daemon.keeper.look()
        status, said = await other.probe("/probe/readiness")
        assert (status, b"recovery_mode" in said, b"asked in vain" in said) == (503, True, True)
        database = first.daemon.coordinator.database
        outside_of(database, delete(schema.objects).where(schema.objects.c.key.like("identities/%")))
        assert not await recovering.attempt()
        assert "names no other coordinator" in asked_of(other)


async def test_nobody_has_to_call_it(pair: tuple[Founded, Founded], monkeypatch: pytest.MonkeyPatch) -> None:
    """rules H10, H16, H25, H36, H18: by looking alone, also past looks that fail; and startup covers one round. The one
    that is asked looks again once this one has said who it is, and this one asks again sooner than every 15 seconds.
    """
    monkeypatch.setattr(recovering, "RECOVERY_S", 3_600.0)
    one, two = pair
    async with running(one) as first:
        two.settings += f'\n[peers]\nask = "127.0.0.1:{first.ports.coordinators}"'
        async with running(two) as other:
            with trio.fail_after(60):
                await other.daemon.recovering.tried.wait()
                while (await other.probe("/probe/readiness"))[0] != 200:
                    await trio.testing.wait_all_tasks_blocked(0.05)
            assert (await other.probe("/probe/startup"))[0] == 200
            assert (other.daemon.coordinator.keys_directory / seeds.FILE).exists()


def outside_of(database: Database, statement: object) -> None:
    database.is_tampered = True
    with database.engine.begin() as connection:
        connection.execute(statement)
