"""The sections of docs/operating.md about several coordinators, each typed from the page, on machines of their own over
one PostgreSQL: a cluster with owners, a second coordinator, a third one, one whose machine is gone, two that are
forgotten, and then the loss of all of them; and a PostgreSQL whose standby takes over.
"""

import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from coordinator.keys import derived_authority
from coordinator.keys import seed as seeds
from tests.coordinator import failing_over, postgresql
from tests.coordinator.failing_over import Pair
from tests.coordinator.postgresql import Unavailable
from tests.journeys.page_machines import Machine, Section, machines, pin_of, roots_named

OWNERS, FURTHER, GONE = "Owners of the seed", "Two coordinators", "A coordinator's machine is gone"
FAILED_OVER, ANOTHER_SEED = "The database failed over", "Another seed"
WHO, ALL_GONE = "Who the coordinators are", "All coordinators are gone and you have two of three shares"


PROBE = "curl -s http://127.0.0.1:9465/probe/readiness"
AS_THIRD = {
    "coordinator-1 coordinator-2": "coordinator-1 coordinator-2 coordinator-3",
    "prepare coordinator-2": "prepare coordinator-3",
    "coordinator-2.example": "coordinator-3.example",
    "set.json": "third.json",
}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Machines on which nothing is; in a folder with a short name, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    with postgresql.or_skip(tmp_path, "pages", "WHAT PAGES SAY OF SEVERAL COORDINATORS IS NOT TRIED") as server:
        made = machines(folder, server.url.format("postgres"), 3)
        try:
            yield made
        finally:
            for one in made.values():
                one.end()
            shutil.rmtree(folder)


def begun(first: Machine) -> None:
    """A cluster with two owners, whose keys are on the stick."""
    page = Section(OWNERS)
    page.typed(first, "holdfastctl coordinators owner-key")
    first.good("holdfastctl coordinators owner-key --out bob.key --encrypt")
    page.typed(first, "holdfastctl init prod")
    first.start("holdfast-coordinator")
    first.until("holdfastctl status", "prod")
    (first.stick / "shares").mkdir()
    for name in ("alice", "bob"):
        shutil.move(first.at / f"{name}.key", first.stick)
        shutil.move(first.stick / f"roots/{name}.share", first.stick / "shares")


def further(first: Machine, another: Machine, values: Mapping[str, str] | None = None) -> None:
    """Prepared there, declared here, and started there. `values`: where it is not the second one."""
    page, values = Section(FURTHER), values or {}
    (shown,) = page.typed(first, "holdfastctl trust show")
    (prepared,) = page.typed(another, "holdfastctl coordinators prepare", {**values, **roots_named(shown)})
    page.typed(first, "holdfastctl coordinators set coordinator-1 coordinator-2", {**values, **pin_of(prepared)})
    page.typed(another, "systemctl start")
    page.typed(first, "holdfastctl coordinators status")
    assert [block.name for block in page.rest] == ["holdfastctl coordinators remove coordinator-2"]


def gone(first: Machine, second: Machine, roots: Mapping[str, str]) -> None:
    second.lose()
    page = Section(GONE)
    (prepared,) = page.typed(second, "holdfastctl coordinators prepare", roots)
    named = pin_of(prepared) | {"set coordinator-1": "set coordinator-1 coordinator-3"}
    page.typed(first, "holdfastctl coordinators set", named)
    page.typed(second, "systemctl start")
    assert page.rest == []


def forgotten(first: Machine, second: Machine, third: Machine) -> None:
    """One by a set that does not name it, the other one by a command. They still run, and serve nothing."""
    page = Section(WHO)
    page.typed(first, "holdfastctl coordinators set coordinator-1 coordinator-3")
    second.until("holdfastctl coordinators status", "forgotten")
    page = Section(FURTHER)
    del page.rest[:-1]
    page.typed(first, "holdfastctl coordinators remove coordinator-2", {"coordinator-2": "coordinator-3"})
    third.until("holdfastctl coordinators status", "forgotten")
    for one in (second, third):
        assert "not_in_manifest" in one.run("holdfastctl allow add thief").err
        one.good("systemctl stop holdfast-coordinator")  # as the table of states says
    first.until_good("holdfastctl coordinators status")


def all_gone(first: Machine, roots: Mapping[str, str]) -> None:
    """Of every machine: the first one comes back by an owner and root keys."""
    page = Section(ALL_GONE)
    page.typed(first, "holdfastctl coordinators prepare coordinator-1", roots)
    first.until("holdfastctl coordinators status", "not ready")
    page.typed(first, "holdfastctl coordinators status", status=1)
    page.typed(first, "holdfastctl coordinators recover")
    page.typed(first, "holdfastctl trust sign recover.json")
    assert page.rest == []


def test_another_seed_takes_the_place_of_one_in_wrong_hands(three: dict[str, Machine]) -> None:
    """rules H4, H12, H39: another history, another CA, other owners; what followed from the former seed is of no use"""
    first, second, _ = three.values()
    begun(first)
    further(first, second)
    keys = first.at / "var/lib/holdfast-coordinator/keys"
    former, authority = seeds.load(keys, {}), (keys.parent / "tls/ca.pem").read_bytes()
    page = Section(ANOTHER_SEED)
    stopping = page.rest[0]
    page.typed(first, "systemctl stop")
    page.rest.insert(0, stopping)
    page.typed(second, "systemctl stop")
    said, _ = page.typed(first, "holdfastctl coordinators begin-history --anew")
    assert "holdfastctl coordinators ca begin" in said.out
    second.good("systemctl start holdfast-coordinator")
    for one in (first, second):
        one.until_good("holdfastctl coordinators status")
        assert seeds.load(one.at / "var/lib/holdfast-coordinator/keys", {}) not in (None, former)
    page.typed(first, "holdfastctl coordinators ca begin")
    using = page.rest[0]
    for one in (first, second):
        page.rest[:] = [using, *(block for block in page.rest if block is not using)]
        page.typed(one, "holdfastctl coordinators ca use")
    first.until("holdfastctl coordinators ca status", "next")
    page.typed(first, "holdfastctl coordinators ca finish")
    page.typed(first, "holdfastctl coordinators set")
    assert page.rest == []
    now = (keys.parent / "tls/ca.pem").read_bytes()
    assert derived_authority.open_authority(former, authority) is not None
    assert derived_authority.open_authority(former, now) is None
    assert derived_authority.open_authority(seeds.load(keys, {}), now) is not None
    for one in (first, second):
        one.until_good("holdfastctl coordinators status")
    assert "All of it is as it was linked" in second.good("holdfastctl audit verify").out
    assert (first.stick / "new-shares/alice.share").is_file()
    second.good("holdfastctl tokens create --out join.token")


def test_each_is_lost_in_turn_and_then_all_of_them(three: dict[str, Machine]) -> None:
    """rules H1, H2, H7, H22, H31, H49, H51, K26: by the page alone; nothing is carried from machine to machine but the
    stick with root keys, and at the end an owner's key
    """
    first, second, third = three.values()
    begun(first)
    roots = roots_named(first.good("holdfastctl trust show"))
    further(first, second)
    further(first, third, AS_THIRD)
    second.good("holdfastctl allow add gateway")
    gone(first, second, roots)
    second.good("holdfastctl tokens create --node gateway --out join.token")
    forgotten(first, second, third)

    for machine in three.values():
        machine.lose()
    all_gone(first, roots)
    first.good("holdfastctl tokens create --node gateway --out join.token")
    further(first, second, {"set.json": "second.json"})
    second.good("holdfastctl allow add another")
    assert "All of it is as it was linked" in second.good("holdfastctl audit verify").out


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        with failing_over.pair(tmp_path) as made:
            yield made
    except Unavailable as error:
        warnings.warn(f"NO POSTGRESQL, WHAT THE PAGE SAYS OF A FAILOVER IS NOT TRIED: {error}", stacklevel=1)
        pytest.skip(f"NO POSTGRESQL: {error}")


@pytest.fixture
def two(pair: Pair) -> Iterator[dict[str, Machine]]:
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    made = machines(folder, pair.new_database(), 2)
    try:
        yield made
    finally:
        for one in made.values():
            one.end()
        shutil.rmtree(folder)


def test_a_standby_takes_over_in_step_and_behind(pair: Pair, two: dict[str, Machine]) -> None:
    """rules P5, P30, H37, K41: a pause; then a change that is lost, with the old primary back and without it"""
    first, second = two.values()
    begun(first)
    further(first, second)
    page = Section(FAILED_OVER)
    page.next("[database]")  # whose servers listen elsewhere here; the URL is read as it stands in test_database_url.py
    pair.keep_in_step()
    pair.primary.stop()
    (shown,) = page.next("the database does not answer").shown()
    answered = first.until(PROBE, "is a standby, which is read only").out
    assert said(shown).search(answered), (shown, answered)
    pair.fail_over()
    for one in (second, first):
        one.until_good("holdfastctl allow add n1")
    page.typed(first, "holdfastctl coordinators status")

    # behind: the old primary has it, and comes back
    pair.repair()
    pair.fall_behind()
    second.good("holdfastctl allow add lost")
    first.until("holdfastctl allow list", "lost")
    pair.fail_over()
    found, gone_back = page.rest[:2]
    page.typed(first, "holdfastctl status")
    second.until("holdfastctl status", "epoch raise")
    pair.primary.stop()
    pair.standby.start()
    pair.primary, pair.standby = pair.standby, pair.primary
    page.rest.insert(0, gone_back)
    for one in (first, second):
        page.typed(one, "systemctl stop")
    for one in (first, second):
        one.until_good("holdfastctl coordinators status")
        assert "lost" in one.good("holdfastctl allow list").out

    # and once more, without it
    pair.repair()
    pair.fall_behind()
    second.good("holdfastctl allow add lost-for-good")
    first.until("holdfastctl allow list", "lost-for-good")
    pair.fail_over()
    page.rest.insert(0, found)
    page.typed(first, "holdfastctl status")
    page.typed(first, "holdfastctl epoch raise")
    assert page.rest == []
    for one in (first, second):
        one.until_good("holdfastctl coordinators status")
        assert "lost-for-good" not in one.good("holdfastctl allow list").out
    assert "All of it is as it was linked" in first.good("holdfastctl audit verify").out


def said(line: str) -> re.Pattern[str]:
    """A line of the page, whichever servers they are and whatever the one that is gone looks like."""
    return re.compile(".+".join(map(re.escape, re.split(r"db-\d:5432|Connection refused", line))))
