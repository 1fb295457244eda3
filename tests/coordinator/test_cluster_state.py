"""`init` and the standing of the state (rules J34, K12, H37, K47)."""

import threading
from dataclasses import replace

import pytest
from sqlalchemy import update

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.database import Database
from tests.coordinator.candidates import FOUNDING, NOW, SERVER, contents


def code(function, *arguments, **options) -> Code:
    with pytest.raises(Refused) as caught:
        function(*arguments, **options)
    return caught.value.code


def initialise(database: Database, founding=FOUNDING):
    return cluster_state.initialise(database, founding, actor="root", now=NOW)


def test_init_makes_the_first_state(database: Database) -> None:
    """rules J34, K12: the site `default`, and the coordinator's own entry."""
    standing = initialise(database)
    assert (standing.cluster_id, standing.authority_epoch, standing.revision) == ("prod", 1, 1)
    with database.read() as transaction:
        assert cluster_state.site_ids(transaction) == {"default"}
        assert cluster_state.server_certificates(transaction) == {SERVER}
        assert list(cluster_state.token_keys(transaction).values()) == [FOUNDING.token_public_key]


def test_init_again_is_refused_and_changes_nothing(database: Database) -> None:
    """rules J34"""
    initialise(database)
    before = contents(database, "cluster", "sites", "coordinators", "audit")
    assert code(initialise, database) is Code.ALREADY_INITIALISED
    assert code(initialise, database, replace(FOUNDING, cluster_id="other")) is Code.ALREADY_INITIALISED
    assert contents(database, "cluster", "sites", "coordinators", "audit") == before


def test_of_many_first_inits_one_wins(database_url: str) -> None:
    """rules J34, P28: several empty coordinators at once make at most one authority."""
    outcomes: list[str] = []

    def attempt(number: int) -> None:
        own = Database(database_url)
        try:
            outcomes.append(initialise(own, replace(FOUNDING, cluster_id=f"c{number}")).cluster_id)
        except Refused as refused:
            outcomes.append(refused.code.value)
        finally:
            own.close()

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome for outcome in outcomes if outcome != "already_initialised"]
    database = Database(database_url)
    with database.read() as transaction:
        assert cluster_state.standing(transaction).cluster_id == winner
    database.close()


@pytest.mark.parametrize("cluster_id", ["", " ", " prod", "prod ", "Prod", "prod\n", "a..b", "x" * 65])
def test_a_cluster_id_is_never_trimmed(database: Database, cluster_id: str) -> None:
    """rules J25"""
    assert code(initialise, database, replace(FOUNDING, cluster_id=cluster_id)) is Code.BAD_REQUEST
    assert initialise(database).cluster_id == "prod"


def test_no_state_a_stale_one_and_what_follows_are_told_apart(database: Database) -> None:
    """rules H37, P30"""
    with database.read() as transaction:
        assert code(cluster_state.standing, transaction) is Code.NO_STATE
    known = initialise(database)
    assert cluster_state.regression(known, None) == cluster_state.regression(known, known) == ""
    with database.change(actor="x", now=NOW) as transaction:
        cluster_state.raise_revision(transaction)
        transaction.audit("x", "x")
        later = cluster_state.standing(transaction)
    assert cluster_state.regression(later, known) == ""
    assert "epoch raise" in cluster_state.regression(known, later)
    assert cluster_state.regression(replace(known, authority_epoch=2), later) == ""
    grown = replace(known, revision=later.revision + 1, state_id="grown")
    assert cluster_state.regression(grown, later) == ""
    assert cluster_state.regression(grown, later, is_behind=True) != ""
    assert cluster_state.regression(later, later, is_behind=True) == ""


def test_issue_times_never_go_back(database: Database) -> None:
    """rules K47: with the clock behind, the last value is used."""
    initialise(database)
    with database.change(actor="x", now=NOW) as transaction:
        transaction.run(update(schema.cluster).values(last_issued_at=int(NOW) + 100))
        transaction.audit("x", "x")
    with database.read() as transaction:
        assert cluster_state.issue_time(transaction, NOW + 100.9) == NOW + 100
        assert cluster_state.issue_time(transaction, NOW + 101.5) == NOW + 101
        assert cluster_state.issue_time(transaction, NOW + 300, back_s=300) == NOW + 100
        assert cluster_state.issue_time(transaction, NOW + 500, back_s=300) == NOW + 200


def test_what_no_node_would_take_yet_gets_no_date(database: Database) -> None:
    """rules K47: the last date lies ahead of the clock, so the clock is wrong, or it was"""
    initialise(database)
    with database.change(actor="x", now=NOW) as transaction:
        transaction.run(update(schema.cluster).values(last_issued_at=int(NOW) + 100))
        transaction.audit("x", "x")
    with database.read() as transaction, pytest.raises(Refused) as caught:
        cluster_state.issue_time(transaction, NOW + 99)
    assert caught.value.code is Code.CLOCK_BEHIND and "epoch raise" in caught.value.remedy
