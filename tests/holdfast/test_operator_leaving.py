"""`holdfastctl nodes drain`, `undrain`, `remove`: what is asked of whom, and by force the way over root keys."""

from holdfast.ctl.socket import NOT_FOUND, REFUSED, UNCONFIRMED
from snapshot.codes import CATALOGUE, Area
from tests.holdfast.operator_lab import running


def test_of_a_stranger_nothing_is_done(tmp_path):
    """rules J31, J32: each command says so; and a bundle that was signed for its removal is not taken either."""
    assert "not_draining" in CATALOGUE[Area.REQUEST]
    with running(tmp_path) as lab:
        assert "no such member" in lab.good("nodes", "list").out
        assert lab.ctl("nodes", "drain", "n9", "--reason", "sold").status == NOT_FOUND
        assert lab.ctl("nodes", "undrain", "n9").status == NOT_FOUND
        assert lab.ctl("nodes", "remove", "n9").status == UNCONFIRMED
        assert "is no member" in lab.ctl("nodes", "remove", "n9", "--yes").err
        by_force = ("nodes", "remove", "n9", "--force", "--yes")
        assert "--reason" in lab.ctl(*by_force).err
        assert lab.ctl("nodes", "remove", "n9", "--root-key", lab.roots, "--yes").status == REFUSED
        file = lab.folder / "force.json"
        asked = lab.good(*by_force, "--reason", "gone", "--request", file)
        assert f'holdfastctl nodes remove n9 --force --reason "..." --request {file.name}' in asked.out
        unsigned = lab.ctl(*by_force, "--reason", "gone", "--request", file)
        assert (unsigned.status, "still needs" in unsigned.err) == (REFUSED, True)
        lab.good("trust", "sign", file, "--root-key", lab.roots, "--yes")
        refused = lab.ctl(*by_force, "--reason", "gone", "--request", file)
        assert (refused.status, "is no member" in refused.err) == (NOT_FOUND, True)
        at_once = lab.ctl(*by_force, "--reason", "gone", "--root-key", lab.roots)
        assert at_once.status == NOT_FOUND
        assert lab.good("epoch", "show").out.strip() == "1"


def test_trimming_nobody(tmp_path):
    """rules K23: shown by default, and nothing is done where nobody is due."""
    with running(tmp_path) as lab:
        shown = lab.good("nodes", "trim", "--dry-run").out
        assert "30 days without a sign of life" in shown and "nobody is due within a week" in shown
        assert lab.good("nodes", "trim", "--json").json["due"] == []
        assert (lab.ctl("nodes", "trim", "--all-due", "--yes").status) == REFUSED
        assert lab.ctl("nodes", "trim", "--all-due", "--dry-run").status == REFUSED
