"""`holdfastctl nodes list|show`, `fleet`: some of the members, every straggler, and what a script is told."""

import time

import pytest
from sqlalchemy import insert

from coordinator.database import cluster_state, schema
from coordinator.database.database import Database
from coordinator.publishing import declarations
from coordinator.reports import heartbeats
from coordinator.setup.opening import with_history
from tests.coordinator.reports import heartbeat
from tests.holdfast.operator_lab import Lab

UNSEEN = 1_050  # more than a page
DECLARED = (
    "{kind: Node, id: heard-0, spec: {labels: {rack: r1}}}\n---\n{kind: Node, id: n-0, spec: {labels: {rack: r1}}}"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory):
    """Two members that report, and very many that were never heard of."""
    lab = Lab(tmp_path_factory.mktemp("selection"))
    lab.init()
    database = with_history(Database(f"sqlite:///{lab.folder}/state/coordinator.db"), lab.folder / "state" / "keys")
    declarations.apply(database, {"a.yaml": DECLARED}, actor="root", now=time.time())
    ids = ["heard-0", "heard-1", *(f"n-{number}" for number in range(UNSEEN))]
    rows = [
        {"node_id": node_id, "kind": "data", "site_id": "default", "certificate": b"x", "certificate_sha256": node_id,
         "incarnation": "i", "first_seen": 0.0, "generation": 0, "published": -1 if node_id in ids[:2] else 0}
        for node_id in ids  # nothing is due for those that were never heard of: a thousand heads that nobody reads
    ]  # fmt: skip
    with database.change(actor="root", now=time.time()) as transaction:
        transaction.run(insert(schema.nodes), rows)
        transaction.audit("test", "members")
        cluster_state.raise_revision(transaction)
    for minutes in (20, 15, 10, 5):
        state = "degraded" if minutes == 10 else "active"
        said = [heartbeat(node_id, interval_s=600, state=state) for node_id in ids[:2]]
        heartbeats.record(database, said, now=time.time() - minutes * 60)
    database.close()
    lab.start()
    try:
        yield lab
    finally:
        lab.stop()


def ids(ran) -> list[str]:
    return [each["node_id"] for each in ran.json["nodes"]]


def test_all_pages_are_listed(lab: Lab) -> None:
    listed = ids(lab.good("nodes", "list", "--json"))
    assert len(listed) == UNSEEN + 2 and listed == sorted(listed)
    assert ids(lab.good("nodes", "list", "--json", "--label", "rack=r1")) == ["heard-0", "n-0"]
    assert ids(lab.good("nodes", "list", "--json", "--state", "active")) == ["heard-0", "heard-1"]
    assert ids(lab.good("nodes", "list", "--json", "--site", "east")) == []
    lines = lab.good("nodes", "list", "--label", "rack=r1").out.splitlines()
    assert [line.split()[3] for line in lines[1:]] == ["active", "unseen"]
    wrong = lab.ctl("nodes", "list", "--label", "rack")
    assert (wrong.status, "name=value" in wrong.err) == (6, True)


def test_the_fleet_tells_a_script_whether_somebody_lags(lab: Lab) -> None:
    """Every straggler by name, over pages; 1 while there is one, 0 where there is none."""
    ran = lab.ctl("fleet", "--json")
    assert (ran.status, ran.json["stragglers_total"]) == (1, UNSEEN + 2)
    assert len({each["node_id"] for each in ran.json["stragglers"]}) == UNSEEN + 2
    assert "n-1049" in lab.ctl("fleet").out
    late = lab.ctl("fleet", "--state", "active", "--json")
    assert (late.status, late.json["members"]) == (1, 2)
    assert {each["reason"].partition(":")[0] for each in late.json["stragglers"]} == {"late"}
    nobody = lab.good("fleet", "--site", "east")
    assert "every node holds what it should" in nobody.out


def test_one_of_them_on_one_screen(lab: Lab) -> None:
    shown = lab.good("nodes", "show", "heard-0")
    words = shown.out.split()
    assert "ACTIVE" not in words and "DEGRADED" in words
    assert ["route_policy", "-", "1.3"] in [line.split()[:3] for line in shown.out.splitlines()]
    value = lab.good("nodes", "show", "heard-0", "--json").json
    assert [each["state"] for each in value["history"]] == ["active", "degraded", "active"]
    assert (value["events"], value["labels"], value["agent_version"]) == ([], {"rack": "r1"}, "0.1.0")
    unseen = lab.good("nodes", "show", "n-7").out
    assert "it has reported nothing of late" in unseen and "unseen" in unseen
