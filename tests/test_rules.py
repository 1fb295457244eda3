"""rules P26: every rule has a test or stands on the list to come, and every citation names a rule."""

import tomllib

import pytest

from tests import citations, rules_to_come
from tests.citations import Citation, in_source, in_text

PAGES = citations.registry()
SOURCES = sorted(
    path
    for folder in ("snapshot", "wire", "store", "agent", "coordinator", "holdfast", "tests", "benchmarks")
    for path in (citations.ROOT / folder).rglob("*.py")
)


def test_citations_name_rules_that_exist():
    known = citations.known(PAGES)
    unknown = {str(path): found for path in SOURCES if (found := in_source(path.read_text()) - known)}
    assert unknown == {}, "no such id in docs/rules.toml"


def test_every_rule_of_the_first_stage_is_proved_or_to_come():
    """rules P26"""
    missing = rules_to_come.unproved(PAGES, citations.proved())
    forgotten = [ident for ident in missing if ident not in rules_to_come.listed()]
    assert not forgotten, "cite them in a test, or give a reason in docs/rules-to-come.toml"


def test_the_list_to_come_holds_nothing_else():
    missing = rules_to_come.unproved(PAGES, citations.proved())
    idle = [ident for ident in rules_to_come.listed() if ident not in missing]
    assert not idle, "proved by now, of stage 2, or unknown: run `python -m tests.rules_to_come --write`"


def test_every_entry_to_come_gives_a_reason():
    assert [ident for ident, reason in rules_to_come.listed().items() if len(reason.split()) < 3] == []


def test_how_much_is_proved(shown):
    """Numbers to look at, not to reach."""
    proved = citations.proved()
    counts = {}
    for stage in (1, 2):
        rules = {ident for ident, rule in PAGES["rules"].items() if rule["stage"] == stage}
        idents = {Citation("rules", ident) for ident in rules}
        counts[f"rules of stage {stage}"] = (len(idents & proved), len(idents))
    threats = {Citation("threats", ident) for ident in PAGES["threats"]}
    counts["threats"] = (len(threats & proved), len(threats))
    for name, (done, all_) in counts.items():
        shown(f"{name}: {done} of {all_} cited")
    assert all(done <= all_ for done, all_ in counts.values())


def test_the_registry_is_whole():
    stages = {rule["stage"] for rule in PAGES["rules"].values()}
    assert stages == {1, 2}
    assert all(rule["section"] in PAGES["sections"] and rule["text"] for rule in PAGES["rules"].values())
    assert all(row.keys() == {"attack", "expected"} for row in PAGES["threats"].values())


@pytest.mark.parametrize(
    ("text", "idents"),
    [
        ("rules S31, S87", ["S31", "S87"]),
        ("Proves rule J7: first failure wins", ["J7"]),
        ("rules S25, S26 and\n   L19; threats C04", ["S25", "S26", "L19", "C04"]),
        ("rules S55a..f", ["S55a", "S55b", "S55c", "S55d", "S55e", "S55f"]),
        ("rules S56a-S56c, H-000-2", ["S56a", "S56b", "S56c", "H-000-2"]),
        ("rules S41-S43 (format.md 7)", ["S41", "S42", "S43"]),
        ("threats D-24, S13.", ["D-24", "S13"]),
        ("S31 alone, the rules of S1 and some threats", []),
        ("rules P256key", []),
    ],
)
def test_what_counts_as_a_citation(text, idents):
    assert [cited.ident for cited in in_text(text)] == idents


def test_strings_are_no_citations_and_comments_may_wrap():
    source = '"""rules S1"""\nx = "rules S2"\n# rules S3,\n# S4\n\n# S5\ndef f():\n    """threats C01"""\n'
    expected = {("rules", "S1"), ("rules", "S3"), ("rules", "S4"), ("threats", "C01")}
    assert in_source(source) == {Citation(*pair) for pair in expected}


def test_the_generated_list_keeps_reasons_and_drops_what_is_proved():
    pages = {
        "sections": {"2.2": "LMDB"},
        "rules": {f"L{n}": {"stage": 2 if n == 4 else 1, "section": "2.2"} for n in range(1, 5)},
    }
    missing = rules_to_come.unproved(pages, {Citation("rules", "L1")})
    text = rules_to_come.render(pages, missing, {"L1": "was missing", "L3": 'because of "this"'})
    assert tomllib.loads(text) == {"L2": rules_to_come.REASONS["2.2"], "L3": 'because of "this"'}
