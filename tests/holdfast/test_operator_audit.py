"""`holdfastctl audit verify`, and `coordinators begin-history`, as programs (rules H12, H48)."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coordinator.setup import begin_history, configuration
from holdfast.ctl.socket import DIFFERENT, REFUSED, UNCONFIRMED
from tests.holdfast.operator_lab import Lab, running


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("lab")) as started:
        yield started


def outside(lab: Lab, *statements: str) -> None:
    """As whoever can write to the file."""
    with closing(sqlite3.connect(lab.folder / "state" / "coordinator.db", timeout=60)) as database, database:
        for statement in statements:
            database.execute(statement)


def test_all_of_it_is_verified(lab: Lab) -> None:
    lab.good("allow", "add", "node-a")
    told = lab.good("audit", "verify", "--json").json
    assert (told["good"], told["faults"], told["oldest"], told["links"]) == (True, [], 1, told["newest"])
    assert set(told["tables"].values()) == {"good"}
    assert told["rows"] + told["unlinked"] == len(lab.good("audit", "--json").json["entries"])
    assert told["since"] <= told["until"]
    assert "All of it is as it was linked." in lab.good("audit", "verify").out
    assert f"good, {told['newest']} links" in lab.good("status").out


def test_what_was_changed_from_outside_is_named(lab: Lab) -> None:
    lab.good("allow", "add", "node-b")
    outside(lab, "UPDATE audit SET actor = 'nobody' WHERE action = 'allow' AND subject = 'node-b'")
    outside(lab, "UPDATE allowlist SET site_id = 'elsewhere' WHERE node_id = 'node-b'")
    ran = lab.ctl("audit", "verify")
    assert ran.status == DIFFERENT
    assert "(allow node-b by nobody, 20" in ran.out
    assert "allowlist: rows of allowlist were changed" in ran.out
    told = lab.ctl("audit", "verify", "--json").json
    assert (told["good"], told["tables"]["nodes"]) == (False, "good")
    assert [fault["audit_id"] is not None for fault in told["faults"]] == [True]


def make_as_before(lab: Lab) -> None:
    """What `init` of an earlier version left: no seed, no history, no identity."""
    lab.stop()
    (lab.keys / "seed").unlink()
    (lab.keys / "identity.pem").unlink()
    outside(
        lab,
        "DELETE FROM pointers",
        "DELETE FROM transitions",
        "UPDATE audit SET link = NULL",
        "UPDATE coordinators SET identity_sha256 = ''",
    )


def test_one_that_was_stopped_between_history_and_identity_ends_what_it_began(lab: Lab) -> None:
    """rules P7: the same command again; and once more there is nothing to be done"""
    make_as_before(lab)
    arguments = ("coordinators", "begin-history", "--configuration", lab.configuration, "--yes")
    begin_history.begin(configuration.load(lab.configuration), anew=False, actor="uid:0", now=time.time())
    assert not (lab.keys / "identity.pem").exists()
    said = lab.good(*arguments).out
    assert "begun before" in said
    ran = lab.ctl(*arguments)
    assert (ran.status, "has a signed history" in ran.err) == (REFUSED, True)
    lab.start()
    (standing,) = lab.good("coordinators", "status", "--json").json["coordinators"]
    assert (standing["state"], standing["identity"] in said) == ("ready", True)


def test_a_cluster_from_before_is_carried_over(lab: Lab) -> None:
    """rules H0, H24: it goes on, and says so; one command gives it all of them"""
    seed = lab.keys / "seed"
    arguments = ("coordinators", "begin-history", "--configuration", lab.configuration)
    assert lab.ctl(*arguments, "--yes").status == REFUSED  # it runs
    make_as_before(lab)
    lab.start()
    assert "has no signed history (holdfastctl coordinators begin-history)" in lab.log()
    assert "none: changes are not proven" in lab.good("status").out
    lab.good("allow", "add", "node-c")
    assert "no history was begun here" in lab.ctl("audit", "verify").out
    lab.stop()
    assert lab.ctl(*arguments).status == UNCONFIRMED
    assert not seed.exists()
    made = lab.good(*arguments, "--yes", "--json").json
    begun, own = made["history"], made["identity"]
    assert (Path(begun["seed"]).samefile(seed), seed.stat().st_mode & 0o777) == (True, 0o600)
    assert Path(own["identity"]).samefile(lab.keys / "identity.pem")
    lab.start()
    (standing,) = lab.good("coordinators", "status", "--json").json["coordinators"]
    assert (standing["state"], standing["identity"]) == ("ready", own["certificate_sha256"])
    told = lab.good("audit", "verify", "--json").json
    assert (told["good"], told["oldest"]) == (True, 1)
    assert told["rows"] >= begun["rows"]
    secret = seed.read_text()
    assert secret not in lab.log() + (lab.folder / "state" / "coordinator.db").read_bytes().decode("latin-1")
