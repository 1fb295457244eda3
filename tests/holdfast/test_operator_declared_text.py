"""What is exported is taken back as it was, whatever it says."""

from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.declared import resources, yaml_source
from coordinator.declared.kinds import Node, Selector, Service
from holdfast.ctl import declared_text
from tests.coordinator.models import resource_sets

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        "",
        "no",
        "on",
        "~",
        "null",
        "true",
        "0755",
        "1e3",
        "1e9999",
        "-",
        "22:30",
        "0x1f",
        ".inf",
        "a: b",
        "# a",
        "=",
        "<<",
    ]
)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15).filter(lambda one: one == 0 or abs(one) > 1e-90)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def taken_back(*declared) -> dict:
    entries = [{"kind": each.KIND, "id": each.id, "spec": each.brief()} for each in declared]
    found = resources.read({"export.yaml": declared_text.to_yaml(entries)})
    return {key: each.resource for key, each in found.items()}


@given(resource_sets)
def test_every_kind_comes_back(declared) -> None:
    assert taken_back(*declared.values()) == declared


@given(st.dictionaries(texts, values, max_size=4))
@example({"small": 0.060325354497295786, "least without an exponent": 0.00012345678901234567})
@example({"same": [1, 1.5, [1], [1]], "long": "x y " * 500, "1": {"": None}})
def test_every_value_comes_back(settings) -> None:
    """A number stays a number, text stays text, whatever it looks like."""
    written = declared_text.to_yaml([{"kind": "Service", "id": "s", "spec": {"settings": settings}}])
    (source,) = yaml_source.documents(written)
    assert all(line.isprintable() for line in written.split("\n"))  # threats D-59
    assert repr(source.value["spec"]["settings"]) == repr({key: settings[key] for key in settings})


def test_what_goes_without_saying_is_left_out() -> None:
    node = Node("n1", roles=("core_mesh",), organizations=("acme",))
    assert declared_text.to_yaml([{"kind": "Node", "id": "n1", "spec": node.brief()}]) == (
        "---\nkind: Node\nid: n1\nspec:\n  roles: [core_mesh]\n  organizations: [acme]\n"
    )
    service = Service("web", "acme", Selector(labels={"rack": "yes"}))
    assert service.brief() == {"organization": "acme", "runs_on": {"labels": {"rack": "yes"}}}
    assert '"yes"' in declared_text.to_yaml([{"kind": "Service", "id": "web", "spec": service.brief()}])
    assert taken_back(Node("n2"), service) == {("Node", "n2"): Node("n2"), service.key: service}
