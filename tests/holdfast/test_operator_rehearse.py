"""`holdfastctl test`: what an apply of files would be refused for, with no coordinator anywhere."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.ctl.socket import DIFFERENT, REFUSED
from tests.citations import ROOT
from tests.world import programs
from tests.world.programs import Ran

EXAMPLE = ROOT / "examples" / "expectations"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of the example, to be broken."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "fabric"))


def run(place: Path, *words: object) -> Ran:
    return programs.run("holdfastctl", "test", "-f", place, *words, folder=place.parent)


def value(place: Path, *words: object) -> dict:
    return json.loads(run(place, "--json", *words).out)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_example_holds() -> None:
    done = run(EXAMPLE)
    assert (done.status, done.out) == (0, "passed: 11 resources, 3 nodes, 4 expectations\n")
    assert run(EXAMPLE, "--against", EXAMPLE).status == 0


def test_a_table_over_the_consumers_limit_is_found_before_it_is_applied(place: Path) -> None:
    """And named with the file and line of what expects otherwise (Cloudflare, November 2025)."""
    table = json.loads((place / "features.json").read_text())
    table["features"] *= 4
    (place / "features.json").write_text(json.dumps(table))
    done = run(place)
    assert done.status == REFUSED
    assert "expectation_failed: 1 problems" in done.err
    assert (
        f"{place}/expected.yaml:10: spec.is: features-fit: config/bot-features features.json#/features/200 of edge-1,"
        " edge-2: found an object of 2, expected nothing (a proxy has room for 200)"
    ) in done.err
    (unmet,) = value(place)["unmet"]
    assert unmet == {
        "id": "features-fit",
        "action": "enforce",
        "file": f"{place}/expected.yaml",
        "line": 10,
        "scope": "config/bot-features",
        "pointer": "features.json#/features/200",
        "nodes": ["edge-1", "edge-2"],
        "found": "an object of 2",
        "expected": "nothing",
    }


def test_a_blank_field(place: Path) -> None:
    edit(place / "fabric.yaml", "region: eu-1", 'region: ""')
    assert [one["id"] for one in value(place)["unmet"]] == ["regions-are-named"]


def test_a_file_that_is_no_json(place: Path) -> None:
    (place / "features.json").write_text('{"features": [')
    assert [one["found"] for one in value(place)["unmet"]] == ["a file that is no JSON"] * 2


def test_what_is_gone_altogether(place: Path) -> None:
    """Each of the nodes that are to have it is named, though no scope is left to look into."""
    edit(
        place / "fabric.yaml",
        "id: quota\nspec: {organization: acme, service",
        "id: quota\nspec: {organization: acme, ttl_s: 1, service",
    )
    assert run(place).status == 0
    text = (place / "fabric.yaml").read_text()
    (place / "fabric.yaml").write_text("\n---\n".join(part for part in text.split("\n---\n") if "Route" not in part))
    (unmet,) = value(place)["unmet"]
    assert (unmet["id"], unmet["nodes"], unmet["found"]) == ("edge-keeps-its-way-in", ["edge-1", "edge-2"], "nothing")


def test_what_only_warns_passes_and_is_said(place: Path) -> None:
    edit(place / "fabric.yaml", "region: eu-1", 'region: ""')
    edit(
        place / "expected.yaml",
        "  is: {at_least: 1}\n  description: a policy",
        "  is: {at_least: 1}\n  action: warn\n  description: a policy",
    )
    done = run(place)
    assert done.status == 0
    assert "warning: Expectation regions-are-named" in done.err
    assert value(place)["warnings"][0].startswith("Expectation regions-are-named")


def test_one_that_concerns_nobody_is_said(place: Path) -> None:
    edit(place / "expected.yaml", "tier: inside", "tier: nowhere")
    done = run(place)
    assert done.status == 0
    assert "warning: Expectation regions-are-named concerns no node" in done.err


# ---- everything else that an apply would say


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("kind: Route", "kind: Rout", "kind"),
        ("service: quota,", "service: gone,", "spec.service"),
        ("features.json: {file: features.json}", "features.json: {file: gone.json}", "spec.files.features.json.file"),
        ("region: eu-1", "password: hunter2", "spec.settings.policies.default.password"),
        (
            "features.json: {file: features.json}",
            "features.json: {file: features.json, schema: few.schema.json}",
            "spec.files.features.json.file.features",
        ),
        (
            "features.json: {file: features.json}",
            'features.json: {text: "[${node.id}]", template: true, schema: few.schema.json}',
            "spec.files.features.json.text",
        ),
    ],
    ids=["form", "reference", "file", "secret", "schema", "template"],
)
def test_what_is_wrong_with_the_files(place: Path, old: str, new: str, field: str) -> None:
    (place / "few.schema.json").write_text('{"properties": {"features": {"maxItems": 3}}}')
    edit(place / "fabric.yaml", old, new)
    done = run(place)
    assert done.status == REFUSED
    answer = value(place)
    assert (answer["outcome"], answer["unmet"]) == ("refused", [])
    found = [problem["field"] for problem in answer["problems"]]
    assert any(name.startswith(field) for name in found), answer["problems"]
    assert all(problem["code"] == "invalid_resources" and problem["remedy"] for problem in answer["problems"])
    assert "hunter2" not in done.out + done.err + json.dumps(answer)


def test_a_folder_without_declarations_is_wrong_usage(tmp_path: Path) -> None:
    assert run(tmp_path).status == 2


# ---- the guard


def fleet(folder: Path, routes: int) -> Path:
    folder.mkdir()
    parts = [
        "{kind: Organization, id: acme}",
        "{kind: Service, id: web, spec: {organization: acme, runs_on: {roles: [egress_service]}}}",
    ]
    parts += [
        f"{{kind: Node, id: n{number}, spec: {{roles: [core_mesh], organizations: [acme]}}}}" for number in range(4)
    ]
    parts += [f"{{kind: Route, id: r{number}, spec: {{organization: acme, service: web}}}}" for number in range(routes)]
    (folder / "state.yaml").write_text("\n---\n".join(parts))
    return folder


def test_a_change_that_is_more_than_usual_is_told_and_is_no_failure(tmp_path: Path) -> None:
    """Exit 1, and not 6: an apply would let it pass by its hash, so a CI may do so, too."""
    before, after = fleet(tmp_path / "before", 20), fleet(tmp_path / "after", 8)
    done = run(after, "--against", before)
    assert done.status == DIFFERENT
    words = "route_policy of n0 and 3 more: 12 of 20 entries removed (60 %); at most 30 % at a time, from 10 on"
    assert f"too_much_change: {words}" in done.err
    assert "apply will ask for --allow" in done.out
    answer = value(after, "--against", before)
    assert answer["outcome"] == "too_much_change"
    assert answer["guard"] == [
        {
            "scope": "route_policy",
            "rule": "removed",
            "nodes": 4,
            "example": "n0",
            "found": "12 of 20 entries removed (60 %)",
            "expected": "at most 30 % at a time, from 10 on",
        }
    ]
    assert run(fleet(tmp_path / "next", 16), "--against", before).status == 0
    assert run(after).status == 0


def test_files_of_both_states_are_read(place: Path) -> None:
    """What stands in them alone, in each: one that becomes empty is seen."""
    (place / "features.json").write_text("")
    edit(
        place / "expected.yaml", "kind: Expectation\nid: features-are-json", "kind: Organization\nid: features-are-json"
    )
    text = (place / "expected.yaml").read_text()
    (place / "expected.yaml").write_text(text[text.index("---") :])
    edit(place / "expected.yaml", "features.json#/features/200\n  is: absent", "features.json\n  is: exists")
    done = run(place, "--against", EXAMPLE)
    assert done.status == DIFFERENT, done.out + done.err
    assert "config/bot-features of edge-1 and 1 more: features.json would be empty" in done.err


def test_what_would_be_lost_counts_as_not_met(place: Path) -> None:
    """Without a state before there is nobody who would lose it; with one there is."""
    text = (place / "fabric.yaml").read_text()
    (place / "fabric.yaml").write_text(text[: text.index("\n---\nkind: Config")])
    assert run(place).status == 0
    (unmet,) = value(place, "--against", EXAMPLE)["unmet"]
    assert (unmet["found"], unmet["nodes"]) == ("no scope config/bot-features", ["edge-1", "edge-2"])


def test_an_earlier_state_that_does_not_hold_together_is_named_by_its_files(place: Path) -> None:
    edit(place / "fabric.yaml", "kind: Route", "kind: Rout")
    done = run(EXAMPLE, "--against", place)
    assert done.status == REFUSED
    assert f"{place}/fabric.yaml" in done.err


# ---- what it costs


def test_it_waits_for_no_database() -> None:
    """It runs at each push, and asks none."""
    words = [str(EXAMPLE), "--against", str(EXAMPLE)]
    program = (
        "import sys\nfrom holdfast.ctl.rehearse import test\n"
        f"test(['-f', *{words!r}], standalone_mode=False)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'sqlalchemy', 'alembic', 'trio', 'psycopg'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
