"""Another table of values that are taken for secrets, in a running coordinator."""

from pathlib import Path

import pytest

from tests.holdfast.operator_lab import Lab, running

MORE = """[families.acme_badge]
about = "a badge of Acme"
needs = ["acme-"]
pattern = 'acme-[0-9]{12}'
"""
DECLARED = """kind: Organization
id: acme
---
kind: Service
id: web
spec: {organization: acme, runs_on: {roles: [egress_service]}, settings: {badge: acme-123456789012}}
"""


@pytest.fixture
def lab(tmp_path: Path):
    with running(tmp_path) as started:
        yield started


def test_a_reload_takes_the_table_up_or_leaves_all_as_it_was(lab: Lab) -> None:
    """threats D-54: also for files that were read just before"""
    (lab.folder / "all.yaml").write_text(DECLARED)
    lab.good("diff", "-f", "all.yaml")
    lab.stop()
    shapes = lab.folder / "shapes.toml"
    shapes.write_text("[families]\n")
    table = f'\n[secrets]\nvalue_shapes = "{shapes}"\n'
    lab.configuration.write_text(lab.configuration.read_text() + table)
    lab.start()
    lab.good("diff", "-f", "all.yaml")
    shapes.write_text(MORE)
    lab.reload()
    ran = lab.ctl("apply", "-f", "all.yaml", "--yes")
    assert "a badge of Acme (acme_badge)" in ran.err and "exempt: [{at: settings.badge" in ran.err
    shapes.write_text("[families.x]\npattern = 'a+'\n")
    lab.reload()
    assert "families.x" in lab.log()
    assert "acme_badge" in lab.ctl("apply", "-f", "all.yaml", "--yes").err
