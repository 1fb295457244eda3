"""The catalogue of codes: each code that is given out has a row, each row a code that is given out."""

import ast
import re
from enum import Enum

import pytest

from agent.services.service_limits import BLAST_RADIUS
from agent.state.join_codes import CODES, TOKEN_CODES
from agent.state.node_state import StateCause
from agent.state.own_bounds import QUARANTINED, TOO_FAR_AHEAD, TOO_MANY_WAIT
from agent.unconfigured import NOT_CONFIGURED
from coordinator.base.refusal import Code
from coordinator.reports.checkin import Comparison
from snapshot.codes import CATALOGUE, Area, explain
from tests.pages import http_errors, reasons
from tests.source import modules

ROWS = [(area, code) for area in Area for code in CATALOGUE[area]]


def test_each_row_says_what_it_means_and_what_to_do() -> None:
    """rules P10: codes are stable, and each is told in words."""
    for area, code in ROWS:
        explanation = CATALOGUE[area][code]
        assert explanation.meaning.endswith("."), (area, code)
        assert explanation.remedy.endswith("."), (area, code)
        assert explanation.meaning != explanation.remedy, (area, code)


@pytest.mark.parametrize(("area", "enumeration"), reasons.enumerations().items(), ids=str)
def test_each_member_of_an_enumeration_has_a_row_and_no_other(area: Area, enumeration: type[Enum]) -> None:
    assert CATALOGUE[area].keys() == {str(member.value) for member in enumeration}


def test_each_alarm_has_a_row_and_no_other() -> None:
    assert CATALOGUE[Area.ALARM].keys() == {one.value for one in Comparison} - {Comparison.EQUAL.value}


def test_each_cause_of_a_state_has_a_row_and_no_other() -> None:
    """rules A2..A8: its own causes, and those of a fence, which the gate gives as well."""
    fences = CATALOGUE[Area.GATE].keys() & CATALOGUE[Area.STATE].keys()
    assert {str(cause) for cause in StateCause} | fences | {NOT_CONFIGURED} == CATALOGUE[Area.STATE].keys()


def test_each_bound_of_a_nodes_own_has_a_row_and_no_other() -> None:
    own = {TOO_FAR_AHEAD, TOO_MANY_WAIT, BLAST_RADIUS, QUARANTINED, "validator_refused"}
    assert CATALOGUE[Area.NODES_OWN].keys() == own


def test_each_way_a_join_fails_has_a_row_and_no_other() -> None:
    own = {*CODES.values(), *TOKEN_CODES} - set(Code)
    answers = {"not_ready", "too_many_requests"}  # of the coordinator's listener, in the words of who joins
    assert CATALOGUE[Area.JOIN].keys() - answers - {"bad_answer"} <= own
    assert {code for code in own if explain(code, Area.JOIN) is None} == set()


def test_each_error_of_a_listener_has_a_row_and_no_other() -> None:
    """Also those whose code a variable names: they are the coordinator's, the store's, or a verdict."""
    raised = {each.code for each in http_errors.codes()}
    assert raised <= CATALOGUE[Area.LISTENER].keys() | set(Code)
    assert CATALOGUE[Area.LISTENER].keys() <= raised | set(Code)


def test_each_member_of_an_enumeration_is_given_out() -> None:
    """A code that no program names has no use, and its row none either."""
    named = {name for module in modules() for name in re.findall(r"(?=\b(\w+\.\w+)\b)", module.source)}
    members = [member for each in (*reasons.enumerations().values(), StateCause, Comparison) for member in each]
    idle = [str(member) for member in members if f"{type(member).__name__}.{member.name}" not in named]
    assert idle == []


def test_one_word_may_mean_something_else_in_each_area() -> None:
    found = {explain("revoked", area) for area in (Area.STATE, Area.GATE, Area.REQUEST)}
    assert len(found) == 3
    assert explain("revoked", Area.STORE, Area.GATE) == CATALOGUE[Area.GATE]["revoked"]
    assert explain("of_a_later_version", *Area) is None


def test_a_command_that_refuses_prints_a_code() -> None:
    """rules P10: scripts go by it. Of a file that the system does not give, or a library that is not there, it is the
    system's own word.
    """
    without = [
        f"{module.name}:{call.lineno}"
        for module in modules("holdfast")
        if module.name not in ("holdfast.ctl.machine", "holdfast.ctl.move", "holdfast.ctl.socket")
        for call in module.nodes
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Failed"
        and {"REFUSED", "NOT_FOUND"} & {each.id for each in call.args if isinstance(each, ast.Name)}
        and "code" not in {keyword.arg for keyword in call.keywords}
    ]
    assert without == []
