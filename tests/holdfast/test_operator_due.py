"""`holdfastctl due`: everything that ends, for people, for scripts and for cron."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshot.identifiers import parse_time
from tests.holdfast.operator_lab import Lab, running

DAY = 86_400


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("due")) as started:
        yield started


def age(lab: Lab, seconds: int) -> None:
    """The cluster as if it were so much older, and had no backup."""
    (file,) = (lab.folder / "state").glob("*.db")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE cluster SET initialised_at = initialised_at - ?", [seconds])
    database.close()


def block(text: str, what: str) -> list[str]:
    """The three lines of one thing."""
    lines = text.splitlines()
    (start,) = [number for number, line in enumerate(lines) if f" {what}" in line]
    return lines[start : start + 3]


def test_a_new_cluster_has_nothing_due_and_lists_everything(lab: Lab):
    ran = lab.good("due")
    assert "nothing is due" in ran.out
    for what in ("trust bundle", "root key", "config key", "signing", "coordinator certificate", "coordinator ca"):
        assert what in ran.out
    value = lab.good("due", "--json").json
    (bundle,) = [each for each in value["things"] if each["what"] == "trust_bundle"]
    assert parse_time(bundle["ends"]) - parse_time(bundle["begins"]) == 365 * DAY
    assert bundle["urgency"] == "fine"
    assert [each["ends"] for each in value["things"]] == sorted(each["ends"] for each in value["things"])


def test_what_ends_within_the_time_is_due_and_says_what_to_do(lab: Lab):
    ran = lab.ctl("due", "--within", "366d")
    assert ran.status == 1
    first, ends, remedy = block(ran.out, "trust bundle 1")
    assert first.startswith("SOON")
    assert "in 364 d" in ends or "in 365 d" in ends
    assert "nothing can be published" in ends and "holdfastctl trust export-request" in remedy


def test_wrong_usage_and_nobody_there(lab: Lab, tmp_path: Path):
    assert lab.ctl("due", "--within", "soon").status == 2
    nobody = lab.ctl("due", "--socket", tmp_path / "none" / "admin.sock")
    assert (nobody.status, nobody.out) == (3, "")


def test_what_has_ended_is_exit_status_3_and_stands_in_status(lab: Lab):
    age(lab, 8 * DAY)
    try:
        ran = lab.ctl("due")
        assert ran.status == 3
        assert "something HAS ENDED" in ran.out
        assert "none was made yet" in lab.good("status").out
        assert [each["what"] for each in lab.good("status", "--json").json["due"]] == ["backup"]
    finally:
        age(lab, -8 * DAY)


def test_a_token_is_listed_and_asks_for_nothing(lab: Lab):
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", "join.token")
    ran = lab.good("due", "--within", "2d")
    first, ends, remedy = block(ran.out, "join token")
    assert first.startswith("planned") and "gateway" in ends
    assert remedy.strip() == "holdfastctl tokens create --node gateway"
