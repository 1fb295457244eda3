"""`holdfastctl resources`: what is declared, and taken back as it was."""

import shutil

from tests.citations import ROOT
from tests.holdfast.operator_lab import running

DECLARED = """
kind: Organization
id: acme
---
kind: Node
id: n1
spec: {roles: [egress_service], organizations: [acme], labels: {rack: "0755", on: "no"}}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [n1]}
  settings: {"a: b": [1, 1.5, null, "1", "null"], big: 1e22}
"""


def test_an_export_is_taken_back_unchanged(tmp_path) -> None:
    """And begins another cluster with the same."""
    with running(tmp_path) as lab:
        assert "nothing is declared" in lab.good("resources", "list", "--kind", "Node").out
        (tmp_path / "declared.yaml").write_text(DECLARED)
        lab.good("apply", "-f", "declared.yaml", "--yes")
        shutil.copytree(ROOT / "examples" / "fabric", tmp_path / "declared")
        cluster = tmp_path / "declared" / "cluster.yaml"
        cluster.write_text(cluster.read_text().replace("id: fabric", "id: prod"))
        lab.good("apply", "-f", "declared", "--yes")
        exported = lab.good("resources", "export").out
        (tmp_path / "exported.yaml").write_text(exported)
        again = lab.good("apply", "-f", "exported.yaml", "--prune", "--json", "--dry-run").json
        assert (again["changes"], again["touched"]) == ([], {})
        assert again["unchanged"] == len(lab.good("resources", "export", "--json").json["resources"]) > 40
        cleared = lab.good("apply", "-f", "declared.yaml", "--prune", "--yes", "--json").json
        assert {each["verb"] for each in cleared["changes"]} == {"delete"}
        back = lab.good("apply", "-f", "exported.yaml", "--yes", "--json").json
        assert len(back["changes"]) == len(cleared["changes"])
        assert lab.good("resources", "export").out == exported


def test_one_and_some(tmp_path) -> None:
    with running(tmp_path) as lab:
        (tmp_path / "declared.yaml").write_text(DECLARED)
        lab.good("apply", "-f", "declared.yaml", "--yes")
        assert lab.good("resources", "get", "Organization", "acme").out == (
            '---\nkind: Organization\nid: acme\nspec:\n  name: ""\n'
        )
        assert lab.good("resources", "get", "Node", "n1", "--json").json["spec"]["labels"] == {
            "rack": "0755",
            "on": "no",
        }
        lines = lab.good("resources", "list", "--kind", "Node").out.splitlines()
        assert [line.split()[:2] for line in lines] == [["kind", "id"], ["Node", "n1"]]
        unknown = lab.ctl("resources", "get", "Node", "n2")
        assert (unknown.status, "resources list" in unknown.err) == (4, True)
        assert "use Cluster, Site" in lab.ctl("resources", "list", "--kind", "node").err
