"""docs/fabric.md says what is compiled from examples/fabric: the numbers are worked out again."""

import re
import subprocess
import sys

import pytest

from coordinator.declared import views
from coordinator.declared.compiler import compile_scope
from snapshot.roles import ROLES
from tests.citations import ROOT
from tests.journeys import fabric

PAGE = ROOT / "docs" / "fabric.md"


@pytest.fixture(scope="module")
def of():
    return fabric.model()


def test_the_page_has_the_tables_as_they_are():
    page = PAGE.read_text()
    missing = [table for table in map("\n".join, fabric.tables()) if table not in page]
    assert missing == [], "python -m tests.journeys.fabric prints what belongs there"


def test_it_is_what_it_says_it_is(of):
    """Forty nodes of all five roles, two organizations, three sites."""
    subjects = of.subjects.values()
    assert len(subjects) == 40
    assert {role for each in subjects for role in each.roles} == set(ROLES)
    assert {organization for each in subjects for organization in each.organizations} == {"aurora", "meridian"}
    assert {each.declared.site for each in subjects} == {"fra", "ams", "waw"}


def test_no_node_is_told_of_an_organization_that_it_does_not_serve(of):
    """rules S23, S69: in no section of any scope."""
    for subject in of.subjects.values():
        foreign = {"aurora", "meridian"} - set(subject.organizations)
        for scope in views.scopes(of, subject):
            text = b" ".join(compile_scope(of, subject.node_id, scope).sections.values()).decode()
            names = set(re.findall(r'"organization_id":"([^"]+)"', text))
            assert names <= set(subject.organizations), (subject.node_id, scope)
            if scope.type in ("route_policy", "service_assignment", "qos_policy"):
                assert not any(name in text for name in foreign), (subject.node_id, scope)


def test_secrets_are_references_and_reach_only_the_nodes_that_run_the_service(of):
    """rules S18, S19"""
    holders = {
        subject.node_id
        for subject in of.subjects.values()
        for scope in views.scopes(of, subject)
        if b"secret_ref" in b"".join(compile_scope(of, subject.node_id, scope).sections.values())
    }
    running = {each.node_id for each in of.subjects.values() if "egress_service" in each.roles}
    assert holders
    assert holders <= running


def test_addresses_are_those_kept_for_documentation():
    """RFC 5737, RFC 3849, RFC 2606"""
    text = "\n".join(path.read_text() for path in fabric.FABRIC.glob("*.yaml"))
    for address in re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text):
        assert address.startswith(("192.0.2.", "198.51.100.", "203.0.113.")), address
    for address in re.findall(r"\[([0-9a-f:]+)\]", text):
        assert address.startswith("2001:db8:"), address
    for name in re.findall(r"https://([^:\s]+)", text):
        assert name.endswith(".example"), name


def test_the_tables_are_printed_for_whoever_writes_the_page():
    command = [sys.executable, "-m", "tests.journeys.fabric"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "| `aurora-intranet` |" in printed
