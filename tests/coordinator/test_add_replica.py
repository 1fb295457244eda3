"""`coordinators add`: a further coordinator's machine, whole or not at all (rules K26, K34, P7)."""

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database
from coordinator.keys import keystore
from coordinator.keys.signing_key import UnusableKeyError
from coordinator.membership import replicas
from coordinator.setup import add_replica, initialise
from coordinator.setup.add_replica import ReplicaRequest
from tests.coordinator.test_initialise import DIED, NOW, dies_at, tree
from tests.coordinator.test_initialise import wanted as first_wanted
from wire.certificate import Certificate, fingerprint, pem_to_der
from wire.operators.operator_answers import Replica


@pytest.fixture
def shared(tmp_path: Path, postgresql_url: str) -> initialise.ClusterRequest:
    """A cluster of one coordinator on PostgreSQL."""
    given = first_wanted(tmp_path, database_url=postgresql_url)
    initialise.initialise(given, actor="uid:0", now=NOW)
    return given


@pytest.fixture
def wanted(shared: initialise.ClusterRequest, tmp_path: Path) -> ReplicaRequest:
    file = (tmp_path / "second" / "coordinator.toml", "text")
    url = "https://second.example:7443"
    return ReplicaRequest(
        "coord-2", url, shared.database_url, tmp_path / "second" / "state", shared.state, ("s2",), file
    )


def add(given: ReplicaRequest) -> add_replica.AddedReplica:
    return add_replica.add(given, actor="uid:0", now=NOW)


def refused(given: ReplicaRequest) -> Refused:
    with pytest.raises(Refused) as caught:
        add(given)
    assert caught.value.remedy or caught.value.code is Code.WRONG_CLUSTER
    return caught.value


def known(given: ReplicaRequest) -> list[Replica]:
    database = Database(given.database_url)
    try:
        return replicas.list_replicas(database)
    finally:
        database.close()


def test_everything_is_there_afterwards(wanted: ReplicaRequest) -> None:
    """rules K26: the config keys and the CA are the cluster's, token key and certificate its own"""
    made = add(wanted)
    own, first = tree(wanted.state), tree(wanted.source)
    shared = {name for name in own if own[name] == first.get(name)}
    assert shared == {"tls/ca.pem", "keys/seed"} | {name for name in own if name.startswith("keys/config-")}
    assert set(own) == {name for name in first if not name.startswith("coordinator.db")}
    certificate = Certificate.read(pem_to_der(made.certificate.read_bytes()))
    assert set(certificate.names) == {"second.example", "s2"}
    entry = known(wanted)[1]
    assert (entry.coordinator_id, entry.url) == ("coord-2", wanted.url)
    assert entry.certificate_sha256 == made.certificate_sha256 == fingerprint(certificate.der)
    assert len({each.token_key_id for each in known(wanted)}) == 2
    assert made.cluster_id == "prod"
    assert made.configuration.read_text() == "text"
    assert [key_id for key_id, _ in made.config_keys] == [
        key.key_id for key in keystore.config_keys(initialise.keys_directory(wanted.state), {})
    ]


def test_again_is_refused_and_changes_nothing(wanted: ReplicaRequest, tmp_path: Path) -> None:
    add(wanted)
    before, entries = tree(tmp_path), known(wanted)
    elsewhere = replace(wanted, state=tmp_path / "third", configuration=None)
    assert refused(elsewhere).code is Code.CONFLICT
    assert refused(replace(wanted, coordinator_id="coord-3")).code is Code.ALREADY_INITIALISED
    assert (tree(tmp_path), known(wanted)) == (before, entries)
    add(replace(elsewhere, coordinator_id="coord-3"))


def test_what_was_done_is_not_cleared_up_by_another(wanted: ReplicaRequest) -> None:
    """rules P7: killed between its last two writes, and then another one is wanted in the same place"""
    add(wanted)
    whole = tree(wanted.state)
    note = wanted.state / "coord-2.incomplete"
    note.write_text("\n".join([*(str(wanted.state / name) for name in whole), "end"]))
    assert refused(replace(wanted, coordinator_id="coord-3")).code is Code.ALREADY_INITIALISED
    assert refused(wanted).code is Code.CONFLICT
    assert tree(wanted.state) == whole


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"url": "http://second.example"}, Code.BAD_REQUEST),
        ({"coordinator_id": "Second"}, Code.BAD_REQUEST),
        ({"coordinator_id": "coord-1"}, Code.CONFLICT),
        ({"hosts": ("",)}, Code.BAD_REQUEST),
        ({"hosts": ("s2:7443",)}, Code.BAD_REQUEST),
    ],
)
def test_what_is_at_odds_is_refused_before_anything_is_made(
    wanted: ReplicaRequest, tmp_path: Path, change: dict, code: Code
) -> None:
    before, entries = tree(tmp_path), known(wanted)
    assert refused(replace(wanted, **change)).code is code
    assert (tree(tmp_path), known(wanted)) == (before, entries)
    add(wanted)


@pytest.mark.parametrize("missing", ["keys", "tls"])
def test_what_the_copy_lacks_is_named(wanted: ReplicaRequest, tmp_path: Path, missing: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(wanted.source, copy)
    shutil.rmtree(copy / missing) if (copy / missing).is_dir() else (copy / missing).unlink()
    found = refused(replace(wanted, source=copy))
    assert (found.code, str(copy / missing) in found.detail) == (Code.BAD_KEY, True)
    assert not wanted.state.exists()


def test_a_config_key_that_others_may_read_is_refused(wanted: ReplicaRequest) -> None:
    """threats D-61"""
    (key,) = (wanted.source / "keys").glob("config-*.pem")
    key.chmod(0o644)
    with pytest.raises(UnusableKeyError):
        add(wanted)
    assert not wanted.state.exists()


def test_a_sqlite_file_is_one_coordinators(tmp_path: Path) -> None:
    """rules H8, P8"""
    first = first_wanted(tmp_path)
    initialise.initialise(first, actor="uid:0", now=NOW)
    given = ReplicaRequest("coord-2", first.url, first.database_url, tmp_path / "second", first.state)
    found = refused(given)
    assert (found.code, "PostgreSQL" in found.remedy) == (Code.IN_USE, True)
    assert not given.state.exists()


def test_a_database_without_a_cluster_is_refused(wanted: ReplicaRequest) -> None:
    """rules J34"""
    database = Database(wanted.database_url)
    with database.engine.begin() as connection:
        connection.execute(delete(schema.cluster))
    database.close()
    assert refused(wanted).code is Code.NO_STATE
    assert not wanted.state.exists()


def test_killed_anywhere_it_can_be_run_again(wanted: ReplicaRequest, tmp_path: Path) -> None:
    """rules P7: it is there whole, or is made anew"""
    context = multiprocessing.get_context("fork")
    outcomes = []
    for number in range(1, 40):
        name = f"coord-{number + 1}"
        state = tmp_path / name
        given = replace(wanted, coordinator_id=name, state=state, configuration=(state.with_suffix(".toml"), "text"))
        process = context.Process(target=dies_at, args=(number, given, add))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == DIED
        try:
            add(given)
            outcomes.append("made")
        except Refused as again:
            assert again.code is Code.CONFLICT
            outcomes.append("was whole")
        assert len(keystore.config_keys(initialise.keys_directory(state), {})) == 1
        assert (state / "tls" / "server.pem").is_file()
        assert not list(state.glob("*.incomplete"))
    else:
        raise AssertionError("it never ended")
    assert outcomes[0] == "made"
    assert outcomes[-1] == "was whole"
    database = Database(wanted.database_url)
    with database.read() as transaction:
        assert len(cluster_state.token_keys(transaction)) == number + 1
    database.close()
