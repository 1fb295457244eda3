"""Which coordinators are asked, and how long those that were replaced are: the decision alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.state.endpoint_sets import (
    MOST,
    EndpointSets,
    NamedBy,
    after_answer,
    after_move,
    askable,
    bootstrap_urls,
    from_row,
    url_of,
)
from snapshot import canonical
from wire.endpoint import Endpoint

URLS = [f"https://c{number}.example:7443" for number in range(6)]
OWN = ("https://c0.example:7443", "https://127.0.0.1:9443")
CONFIGURED = tuple(Endpoint.parse(url, configured=True) for url in OWN)

sets_of_urls = st.lists(st.sampled_from(URLS), unique=True, max_size=4).map(tuple)
steps = st.one_of(st.tuples(st.just("moved"), sets_of_urls), st.tuples(st.just("answered"), st.sampled_from(URLS)))


def section(*values: object) -> bytes:
    return canonical.dumps({"cluster_id": "blue", "coordinators": list(values)})


def urls_asked(sets: EndpointSets, **more: object) -> list[str]:
    return [url_of(endpoint) for endpoint in askable(sets, CONFIGURED, **more)]


@given(st.lists(steps, max_size=20))
def test_no_way_back_is_lost_before_the_new_set_has_answered(history):
    """rules P25, L15: the set before, and the last one that had answered, stay until one of the new set answers"""
    sets = EndpointSets()
    current, before, proven, has_answered = (), (), (), False
    for step, value in history:
        if step == "moved":
            sets = after_move(sets, value)
            if set(value) != set(current):
                before, proven = current, current if has_answered else proven
                has_answered = False
            current = value
        else:
            sets = after_answer(sets, Endpoint.parse(value))
            has_answered = has_answered or not current or value in current
        found = urls_asked(sets)
        assert len(found) == len(set(found)) <= len(CONFIGURED) + 3 * MOST
        assert found[: len(CONFIGURED)] == [url_of(one) for one in CONFIGURED]
        kept = {*current} if has_answered else {*current, *before, *proven}
        assert set(found) == kept | set(map(url_of, CONFIGURED))
        assert from_row(canonical_row(sets)) == sets


def canonical_row(sets: EndpointSets) -> object:
    """As a table of the store gives it back: lists as tuples."""
    return {name: tuple(value) if isinstance(value, list | tuple) else value for name, value in sets.to_row().items()}


@given(st.lists(sets_of_urls, min_size=1, max_size=12))
def test_however_many_sets_never_answer_the_last_that_did_is_asked(unanswered):
    """rules P25"""
    sets = after_answer(
        after_move(EndpointSets(), ("https://works.example:7443",)), Endpoint.parse("https://works.example:7443")
    )
    for urls in unanswered:
        sets = after_move(sets, urls)
        assert askable(sets, ())[Endpoint.parse("https://works.example:7443")] is NamedBy.EARLIER


def test_who_answers_that_is_not_of_the_new_set_ends_nothing():
    """rules P25"""
    sets = after_move(after_answer(after_move(EndpointSets(), (URLS[1],)), Endpoint.parse(URLS[1])), (URLS[2],))
    assert after_answer(sets, Endpoint.parse(URLS[1])) == after_answer(sets, CONFIGURED[0]) == sets
    assert after_answer(sets, Endpoint.parse(URLS[2])).earlier == ()


def test_where_none_is_listed_those_of_agent_toml_are_the_new_set():
    """rules P25"""
    sets = after_move(after_answer(after_move(EndpointSets(), (URLS[1],)), Endpoint.parse(URLS[1])), ())
    assert sets.earlier == (URLS[1],)
    assert after_answer(sets, CONFIGURED[0]) == EndpointSets(answered=True)


def test_the_same_endpoints_in_another_order_are_the_same_set():
    sets = after_answer(after_move(EndpointSets(), (URLS[1], URLS[2])), Endpoint.parse(URLS[1]))
    assert after_move(sets, (URLS[2], URLS[1])) == EndpointSets((URLS[2], URLS[1]), answered=True)


@pytest.mark.parametrize(
    "bad",
    [
        5,
        None,
        "",
        "nonsense",
        "http://c.example:7443",
        "https://c.example:7443/path",
        "https://u:p@c.example:7443",
        "https://c.example:22",
        "https://127.0.0.1:7443",
        "https://localhost:7443",
        "https://[::1]:7443",
        "https://169.254.1.1:7443",
        {"url": "https://c.example:7443"},
    ],
)
def test_a_malformed_entry_authorises_nothing_and_the_rest_lives(bad):
    """threats D-47, rules L15"""
    found, passed_over = bootstrap_urls(section(URLS[1], bad, URLS[2]), CONFIGURED)
    assert found == (URLS[1], URLS[2])
    assert len(passed_over) == 1


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[]", b"{}", b'{"coordinators":{}}', b'{"coordinators":"https://c.example:7443"}']
)
def test_a_malformed_section_lists_none(data):
    assert bootstrap_urls(data, CONFIGURED) == ((), ())


def test_a_list_is_bounded_and_each_is_there_once():
    many = [f"https://c{number}.example:7443" for number in range(3 * MOST)]
    found, passed_over = bootstrap_urls(section(many[0], *many, *["nonsense"] * 40), ())
    assert found == tuple(many[:MOST])
    assert len(passed_over) == MOST


def test_the_port_is_part_of_the_name():
    """format.md 5: as a revocation names it"""
    found, _ = bootstrap_urls(section("https://c.example", "https://[2001:db8::1]:8443", "https://C2.example:443"), ())
    assert found == ("https://c.example:443", "https://[2001:db8::1]:8443", "https://c2.example:443")
    assert len(askable(EndpointSets(found), (), ["https://C.example:443", "https://[2001:DB8::1]:8443"])) == 1


def test_what_agent_toml_names_may_be_listed_too():
    """threats D-47: a loopback is refused in a signed list, unless the operator of the node wrote it as well"""
    assert bootstrap_urls(section("https://127.0.0.1:9443"), CONFIGURED) == (("https://127.0.0.1:9443",), ())
    sets = EndpointSets(("https://127.0.0.1:9443",))
    assert askable(sets, CONFIGURED) == dict.fromkeys(CONFIGURED, NamedBy.CONFIGURATION)
    assert askable(sets, ()) == {}, "no more, once it is written there no more"


def test_what_is_revoked_is_not_asked_unless_the_node_is_told_to():
    """rules S61: agent.toml is its operator's own"""
    sets = EndpointSets((URLS[0], URLS[1]), proven=(URLS[2],))
    assert urls_asked(sets, revoked=URLS[:3]) == [url_of(one) for one in CONFIGURED]


@pytest.mark.parametrize(
    "row",
    [
        None,
        5,
        {"current": 1},
        {"other": ()},
        {"current": (1,)},
        {"current": tuple(URLS * MOST)},
        {"answered": "yes"},
    ],
)
def test_a_row_out_of_form_is_not_known(row):
    assert from_row(row) == EndpointSets()
