"""`holdfast verify` as a process: every conformance vector, usage, and what a person sees."""

import json
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.citations import ROOT
from tests.world import programs
from tests.world.programs import Ran

VECTORS = ROOT / "tests/vectors"
CASES = json.loads((VECTORS / "cases.json").read_text())


def run(*words: object, folder: Path = VECTORS) -> Ran:
    return programs.run("holdfast", "verify", *words, folder=folder)


def batches():
    """One process for each context and time: all that differs is the documents."""
    found = defaultdict(list)
    for case in CASES:
        found[case["context"], case["now"]].append(case)
    return found


def judged(batch):
    (context, now), cases = batch
    files = list(dict.fromkeys(case["document"] for case in cases))
    done = run("--json", "--context", context, "--now", now, *files)
    reports = {value["document"]: value for value in map(json.loads, done.out.splitlines())}
    return cases, reports, done


def test_every_vector_through_the_command_line(shown):
    """rules S11: the verdict, step and reason of each; the exit status says whether one was rejected."""
    wrong, seen = [], 0
    with ThreadPoolExecutor(2) as pool:
        for cases, reports, done in pool.map(judged, batches().items()):
            for case in cases:
                seen += 1
                found = reports[case["document"]]
                if any(found[name] != case["expect"].get(name) for name in ("verdict", "step", "reason")):
                    wrong.append((case["id"], case["expect"], found))
            rejected = any(case["expect"]["verdict"] == "rejected" for case in cases)
            assert done.status == int(rejected), done.err
            assert done.err == ""
    assert wrong == []
    assert seen == len(CASES) > 100
    shown(f"holdfast verify: {seen} of {len(CASES)} vectors as the other implementation judges them")


def case_of(verdict: str, reason: str | None = None):
    return next(
        case
        for case in CASES
        if case["expect"]["verdict"] == verdict and reason in (None, case["expect"].get("reason"))
    )


def asked(case) -> tuple[str, ...]:
    return "--context", case["context"], "--now", case["now"]


def test_usage_errors():
    """protocol.md 5: exit 2 for wrong usage."""
    good = case_of("verified")
    for words in (
        (),
        ("--context", good["context"]),
        (*asked(good), "documents/there-is-none.hfs"),
        (*asked(good), "documents"),
        ("--context", "contexts/there-is-none.json", "--now", good["now"], good["document"]),
        ("--context", good["document"], "--now", good["now"], good["document"]),
        ("--context", good["context"], "--now", "yesterday", good["document"]),
        ("--context", good["context"], "--now", "2027-02-30T00:00:00Z", good["document"]),
        ("--no-such-option", good["document"]),
        (good["document"],),
    ):
        done = run(*words)
        assert (done.status, done.out) == (2, ""), words
        assert "Error:" in done.err


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"cluster_id": "UPPER"}', '{"surplus": 1}', "[" * 100_000])
def test_a_context_out_of_form_is_wrong_usage(tmp_path, content):
    context = tmp_path / "context.json"
    context.write_text(content)
    document = VECTORS / case_of("verified")["document"]
    done = run("--context", context, document)
    assert (done.status, done.out) == (2, "")
    assert "--context" in done.err
    assert "Traceback" not in done.err


def test_what_a_person_sees_of_a_good_one():
    case = case_of("verified")
    done = run(*asked(case), case["document"])
    assert done.status == 0
    first, *lines = done.out.splitlines()
    assert first == f"VERIFIED  {case['document']}"
    shown = dict(line.split(maxsplit=1) for line in lines if line.strip())
    assert {"scope", "signers"} <= shown.keys()
    assert " ".join(shown["made"].split()).startswith("for the node ")


def test_a_program_reads_whom_it_is_for_in_members():
    case = case_of("verified")
    told = json.loads(run("--json", *asked(case), case["document"]).out)
    whom = json.loads((VECTORS / case["context"]).read_text())
    assert told["subject_node_id"] == whom["node_id"]
    assert set(told["roles"]) <= set(whom["roles"]) and set(told["organization_ids"]) <= set(whom["organization_ids"])


def test_what_a_person_sees_of_a_bad_one():
    """The step that failed, what it means, and what to do."""
    case = case_of("rejected", "wrong_cluster")
    done = run(*asked(case), case["document"])
    assert done.status == 1
    assert done.out.startswith(f"REJECTED  {case['document']}\n")
    for words in ("step 2, cluster is ours", "wrong_cluster", "expected", "found", "meaning", "to do"):
        assert words in done.out
    assert "\x1b" not in done.out  # no colours but on a terminal


def test_one_bad_among_good_ones_is_told_apart():
    good = case_of("verified")
    bad = next(
        case
        for case in CASES
        if case["expect"]["verdict"] == "rejected" and (case["context"], case["now"]) == (good["context"], good["now"])
    )
    done = run("--json", *asked(good), good["document"], bad["document"])
    assert [json.loads(line)["verdict"] for line in done.out.splitlines()] == ["verified", "rejected"]
    assert done.status == 1
