"""docs/traceability.md cannot rot: it is what the citations say, and every name on it exists (rules P26)."""

import re

import pytest

from tests import citations, traceability
from tests.citations import Citation, places

PAGES = citations.registry()
SEEDS = traceability.seeds()


def test_the_page_is_what_the_code_says():
    """rules P26"""
    assert traceability.PAGE.read_text() == traceability.page(PAGES, SEEDS), (
        "run `python -m tests.traceability --write`"
    )


@pytest.mark.parametrize("number", PAGES["seeds"])
def test_every_section_of_a_seed_has_its_row_and_nothing_else_has(number):
    assert set(SEEDS[number]) == set(traceability.wanted(PAGES["seeds"][number]))


@pytest.mark.parametrize("number", PAGES["seeds"])
def test_a_row_names_symbols_and_tests_that_exist_or_says_why_not(number):
    for name, row in SEEDS[number].items():
        if "instead" in row:
            assert set(row) == {"instead"}, name
            continue
        assert row["symbols"] and row["tests"], name
        assert [symbol for symbol in row["symbols"] if not traceability.exists(symbol)] == [], name
        assert [place for place in row["tests"] if not traceability.test_exists(place)] == [], name


def test_every_rule_of_the_first_stage_stands_somewhere():
    """By its citation in the code, or by the module that its test is about."""
    bare = [
        ident
        for ident, rule in PAGES["rules"].items()
        if rule["stage"] == 1 and f"| {ident} | 1 | " not in traceability.PAGE.read_text()
    ]
    assert bare == []


def test_a_citation_is_of_what_it_stands_at():
    source = (
        '"""rules S1"""\n\nA = 1  # rules S2\n\n# rules S3,\n# S4\nB = 2\n\n\n'
        'class C:\n    """rules S5"""\n\n    @property\n    def d(self):\n        # rules S6\n        return 1\n'
    )
    named = {(name, each.ident) for name, each in traceability._named(source)}
    assert named == {("", "S1"), ("A", "S2"), ("B", "S3"), ("B", "S4"), ("C", "S5"), ("C.d", "S6")}
    assert (3, Citation("rules", "S2")) in set(places(source))


def test_each_attack_on_availability_names_a_test_that_exists():
    """docs/threat-model.md: the bound is no better than the test that holds it"""
    page = (citations.ROOT / "docs/threat-model.md").read_text()
    section = page.partition("## Availability")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    named = [re.findall(r"`([a-z_/]+\.py::\w+)`", row.rpartition("| ")[2]) for row in rows]
    assert len(rows) > 10
    assert [row for row, places in zip(rows, named, strict=True) if not places] == []
    assert [place for places in named for place in places if not traceability.test_exists(place)] == []
    assert {row[2:].partition(":")[0] for row in rows} >= {"fill", "starve", "flood", "occupy", "veto", "fence"}


def test_what_exists():
    assert traceability.exists("snapshot.verify.STEPS") and traceability.exists("agent.update.update.Update")
    assert not traceability.exists("snapshot.verify.Nothing")
    assert traceability.test_exists("test_traceability.py::test_what_exists")
    assert not traceability.test_exists("test_traceability.py::test_nothing")
