"""Whatever a coordinator answers, `holdfastctl` prints lines of its own: every command that only looks."""

import unicodedata
from collections.abc import Iterator

import pytest

from tests.fakes.hostile import relay
from tests.holdfast.operator_lab import Lab, running

LOOKS = (
    "status", "fleet", "due --all", "audit", "nodes show n1", "allow list", "tokens list",
    "coordinators list", "rotate status", "trust show", "resources list",
    "resources get Node n1", "resources export", "explain n1", "drill outage 1h n1",
    "changes list", "changes show c-1", "changes diff c-1",
)  # fmt: skip
FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
DECLARED = """kind: Organization
id: acme
spec: {name: "Acme"}
---
kind: Node
id: n1
spec: {roles: [core_mesh]}
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("shown")) as started:
        (started.folder / "declared").mkdir()
        (started.folder / "declared" / "all.yaml").write_text(DECLARED)
        started.good("apply", "-f", "declared", "--yes")
        started.good("allow", "add", "n1")
        started.good("tokens", "create", "--node", "n1")
        yield started


def is_safe(text: str) -> bool:
    lines = text.split("\n")
    return not any(line.startswith("VERIFIED") or FORBIDDEN & set(map(unicodedata.category, line)) for line in lines)


@pytest.mark.parametrize("words", LOOKS)
def test_no_answer_moves_the_cursor_or_begins_a_line(lab: Lab, words: str):
    """threats D-59"""
    with relay(lab.socket, lab.folder / "spoilt.sock") as spoilt:
        ran = lab.ctl(*words.split(), "--socket", spoilt)
        as_json = lab.ctl(*words.split(), "--socket", spoilt, "--json")
    (lab.folder / "spoilt.sock").unlink()
    assert "Traceback" not in ran.err
    assert is_safe(ran.out + "\n" + ran.err)
    said = (ran.out + ran.err).lower()
    assert "202egpj" in said or "not a coordinator's answer" in said  # where it is to be an id, nothing of it is shown
    assert is_safe(as_json.out + "\n" + as_json.err)
