"""`holdfastctl apply` and `diff` where an Expectation is not met."""

from holdfast.ctl.socket import REFUSED
from tests.coordinator.test_plan_check import BETTER, BLANK, FOUND, GOOD, WANTED
from tests.holdfast.operator_lab import running


def test_an_apply_that_breaks_an_expectation_is_refused_before_anybody_is_asked(tmp_path) -> None:
    """And changes nothing; the next one that keeps it goes through."""
    with running(tmp_path) as lab:
        (tmp_path / "declared").mkdir()
        quota, wanted = tmp_path / "declared" / "quota.yaml", tmp_path / "declared" / "wanted.yaml"
        quota.write_text(GOOD)
        wanted.write_text(WANTED)
        lab.good("apply", "-f", "declared", "--yes")
        before = lab.good("resources", "export").out
        quota.write_text(BLANK)
        refused = lab.ctl("apply", "-f", "declared")
        assert refused.status == REFUSED
        assert "expectation_failed: 1 problems; nothing was changed" in refused.err
        assert f"declared/wanted.yaml:2: spec.is: {FOUND}" in refused.err
        assert lab.good("resources", "export").out == before
        for command in (("apply", "-f", "declared", "--dry-run"), ("diff", "-f", "declared")):
            shown = lab.good(*command)
            assert "~ Service quota" in shown.out
            assert "warning: it would be refused: expectation_failed" in shown.err
            assert FOUND in shown.err
        quota.write_text(BETTER)
        assert "applied: 1 changes" in lab.good("apply", "-f", "declared", "--yes").out
