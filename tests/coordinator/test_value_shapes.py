"""The coordinator's table of values that are taken for secrets: what it finds, what it may hold, how it is exempted."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.refusal import Code, Refused
from coordinator.declared import resources, value_shapes
from coordinator.declared.resources import InvalidResources
from coordinator.declared.value_shapes import families_in, load, shipped_shapes, unbounded_part
from tests.pages import secret_rates
from tests.secret_corpus import CONTEXTS, HARMLESS, SECRETS, samples

NOT_FOUND = {
    "A password in prose",
    "SNMP community in snmpd.conf",
    "RADIUS secret in clients.conf",
    "TOTP seed (otpauth)",
    "Kubernetes Secret, base64",
    "Random bytes without a mark",
}
WRONGLY = {text for text in HARMLESS if text.startswith(("postgresql://app:$", "amqp://user:$"))}
"""The node's own detector does not know placeholders, and what it refuses nothing lets through."""

STRIPE = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
SERVICE = """kind: Service
id: web
spec:
  organization: acme
  runs_on: {nodes: [n1]}
  settings:
    pay: [{line: %s}]
"""
MORE = """[families.acme_badge]
about = "a badge of Acme"
needs = ["acme-"]
pattern = 'acme-[0-9]{12}'

[families.stripe_key]
pattern = ""
"""


def refused(text, shapes=None):
    with pytest.raises(InvalidResources) as caught:
        resources.read({"a.yaml": text}, shapes)
    return caught.value.problems


@pytest.mark.parametrize("family", sorted(set(SECRETS) - NOT_FOUND))
def test_each_family_is_found_wherever_it_stands(family):
    """threats D-54"""
    missed = [
        put(text)
        for text in samples(family, 5)
        for put in CONTEXTS.values()
        if not secret_rates.by_coordinator(put(text))
    ]
    assert missed == []


@pytest.mark.parametrize("family", sorted(NOT_FOUND))
def test_what_is_said_not_to_be_found_is_not(family):
    assert secret_rates.rate(family, secret_rates.by_coordinator) == 0


def test_configuration_is_not_taken_for_secrets():
    assert set(secret_rates.wrongly(secret_rates.by_coordinator)) == WRONGLY
    assert set(secret_rates.wrongly(secret_rates.by_node)) == WRONGLY


def test_each_family_says_what_it_is_and_finds_something():
    found = {each for family in SECRETS for text in samples(family, 20) for each in families_in(shipped_shapes(), text)}
    assert found == set(shipped_shapes())
    assert all(each.about for each in shipped_shapes().values())


def test_no_pattern_goes_back_over_a_text():
    """threats E24: bounded, by the rule that holds for an operator's own families"""
    for each in shipped_shapes().values():
        assert unbounded_part(each.pattern.pattern) is None


@pytest.mark.parametrize(
    "pattern",
    ["a+", "(a|b)*", "a{3,}", "(?:ab){1,9}", "a{1,200}b{1,200}", "x{1,9999}", r"(a)\\1", "(?P<n>a)(?P=n)", "a" * 3000],
)
def test_a_pattern_that_could_is_refused(pattern, tmp_path):
    file = tmp_path / "more.toml"
    file.write_text(f"[families.x]\nneeds = ['aa']\npattern = '{pattern}'\n")
    with pytest.raises(Refused) as caught:
        load(str(file))
    assert caught.value.code is Code.INVALID_SETTINGS and "families.x" in caught.value.detail and caught.value.remedy
    assert load("") is shipped_shapes()


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "[families]\nx = 1", "[families.X]\npattern = 'a'", "[families.x]\nneeds = []\npattern = 'a'",
     "[families.x]\nneeds = ['a']\npattern = 'a'", "[families.x]\nneeds = ['aa']\npattern = '('",
     "[families.x]\nneeds = ['aa']", "[families.x]\nneeds = ['aa']\npattern = 'a'\nmore = 1", "["],
)  # fmt: skip
def test_a_file_out_of_form(text, tmp_path):
    file = tmp_path / "more.toml"
    file.write_text(text)
    with pytest.raises(Refused) as caught:
        load(str(file))
    assert str(file) in caught.value.detail
    with pytest.raises(Refused):
        load(str(tmp_path / "none.toml"))


def test_a_file_adds_and_switches_off(tmp_path):
    file = tmp_path / "more.toml"
    file.write_text(MORE)
    shapes = load(str(file))
    assert list(families_in(shapes, "badge acme-123456789012")) == ["acme_badge"]
    assert list(families_in(shapes, STRIPE)) == []
    assert shapes.keys() == {*shipped_shapes(), "acme_badge"} - {"stripe_key"}
    (problem,) = refused(SERVICE % "acme-123456789012", shapes)
    assert "a badge of Acme (acme_badge)" in problem.message
    assert resources.read({"a.yaml": SERVICE % STRIPE}, shapes)


def test_what_is_refused_says_where_and_names_both_ways_out():
    """threats D-55: not the value"""
    (problem,) = refused(SERVICE % STRIPE)
    assert (problem.line, problem.field) == (7, "spec.settings.pay[0].line")
    assert "stripe_key" in problem.message and STRIPE not in str(problem)
    assert "secret_ref" in problem.remedy
    assert 'exempt: [{at: "settings.pay[0].line", family: stripe_key' in problem.remedy


NAMES = ("line", "[0]", "no: yes", r"it\u0027s \"it\"", r"\u0007", r"\u0085\u2028é", "x" * 90 + " y")


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_can_be_written_as_it_stands(name):
    """Whatever the member is called: in one line of YAML, and printable."""
    text = SERVICE.replace("line", f'"{name}"') % STRIPE
    (problem,) = refused(text)
    assert str(problem).isprintable()
    said = problem.remedy.partition("exempt: ")[2]
    called = json.loads(f'"{name}"')
    assert yaml.safe_load(said) == [{"at": f"settings.pay[0].{called}", "family": "stripe_key", "because": "..."}]


def test_an_exemption_is_for_one_member_and_one_family():
    exempt = "  exempt: [{at: 'settings.pay[0].line', family: %s, because: of the manual of Stripe}]\n"
    declared = resources.read({"a.yaml": SERVICE % STRIPE + exempt % "stripe_key"})
    assert declared["Service", "web"].resource.exempt[0].because == "of the manual of Stripe"
    (problem,) = refused(SERVICE % STRIPE + exempt % "jwt")
    assert "stripe_key" in problem.message
    (problem,) = refused(SERVICE % STRIPE + exempt.replace("[0]", "[1]") % "stripe_key")
    assert "stripe_key" in problem.message
    unsaid = exempt.replace("of the manual of Stripe", "' '") % "jwt"
    fields = {each.field for each in refused(SERVICE % STRIPE + unsaid)}
    assert "spec.exempt[0].because" in fields


def test_nothing_exempts_what_nodes_refuse():
    """rules S78: the node's gate is the format's"""
    exempt = "  exempt: [{at: 'settings.pay[0].line', family: github_token, because: why not}]\n"
    (problem,) = refused(SERVICE % ("ghp_" + "a" * 36) + exempt)
    assert "raw secret (provider_token)" in problem.message


def test_a_name_that_is_a_secret_is_not_repeated():
    """threats D-55"""
    (problem,) = refused(SERVICE.replace("line", STRIPE) % STRIPE)
    assert STRIPE not in str(problem) and problem.field == "spec.settings.pay[0].(secret)"


def test_another_programs_member_name_has_a_way_out():
    """The file as one text: names are not looked at there, and shapes are."""
    (problem,) = refused(SERVICE.replace("line", "password") % "ask")
    assert "raw secret (name)" in problem.message and "as one text" in problem.remedy
    assert resources.read({"a.yaml": SERVICE % '"password: ask"'})
    assert refused(SERVICE % f'"password: {STRIPE}"')


@given(st.text(st.sampled_from("aA0:/@=$ \n<>-_.Bbesrck"), max_size=300))
def test_any_text_is_looked_at(text):
    assert set(families_in(shipped_shapes(), text)) <= set(value_shapes.shipped_shapes())
