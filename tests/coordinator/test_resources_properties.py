"""Whatever text is declared: resources, or InvalidResources that can be shown (rules S22, S69, S78)."""

import json
from contextlib import suppress

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import example, given

from coordinator.configs.apply_cache import LastRead
from coordinator.declared import resources, value_shapes
from coordinator.declared.kinds import BY_NAME, KINDS
from coordinator.declared.resources import InvalidResources

NAMES = ["password", "secret_ref", "kty", "d", "api_key", "query_grants", "organization_id", "AKIAIOSFODNN7EXAMPLE"]
ODD = ["0", "1", "8080", "-1", "a/b", "~", "", "env:X", "nocolon", "https://u:p@h", "\u0663", "\ud800", "\0", "\x1b"]
WORDS = st.sampled_from([*NAMES, *ODD])
TEXT = st.text(max_size=20) | st.text(st.characters(categories=["Cs", "Cc", "Lu", "Nd"]), max_size=4) | WORDS
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
MEMBERS = sorted({name for kind in KINDS for name in kind.__dataclass_fields__})
SPECS = st.dictionaries(st.sampled_from(MEMBERS) | TEXT, VALUES, max_size=6)
RESOURCES = st.fixed_dictionaries(
    {}, optional={"kind": st.sampled_from(list(BY_NAME)) | VALUES, "id": st.just("a") | VALUES, "spec": SPECS | VALUES}
)
SERVICES = st.fixed_dictionaries(
    {
        "kind": st.just("Service"),
        "id": st.just("web"),
        "spec": st.fixed_dictionaries(
            {"organization": st.just("acme"), "runs_on": st.just({"nodes": ["n1"]}), "settings": SPECS}
        ),
    }
)


def written(value: object) -> str:
    """JSON is YAML too."""
    return json.dumps(value, ensure_ascii=False)


def judged(texts: dict[str, str]) -> None:
    with suppress(InvalidResources):
        try:
            resources.check(resources.read(texts), {}, "prod")
        except InvalidResources as invalid:
            for each in invalid.problems:
                assert each.field and each.message and each.remedy
                assert str(each).isprintable() and str(each).encode()
            raise


@given(RESOURCES | SERVICES | VALUES)
@example({"kind": "Service", "id": "web", "spec": {"settings": {"password": {"secret_ref": "nocolon"}}}})
def test_any_value_as_a_resource(value: object) -> None:
    judged({"a.yaml": written(value)})


@given(SERVICES)
def test_any_settings_of_a_service(value: object) -> None:
    judged({"a.yaml": yaml.safe_dump(value, allow_unicode=True)})


@given(st.dictionaries(TEXT, TEXT | st.text("{}[]:,-?&*!|>'\"#%@`\n \tab0", max_size=60), min_size=1, max_size=3))
def test_any_text_of_any_name(texts: dict[str, str]) -> None:
    judged(texts)


@pytest.mark.parametrize("texts", [{"a.yaml": "a: \ud800"}, {"\udcff.yaml": "kind: Organization\nid: a\n"}])
def test_a_lone_surrogate_is_a_problem_like_any_other(texts: dict[str, str]) -> None:
    """A request's JSON can spell it; UTF-8 cannot."""
    last = LastRead(value_shapes.shipped_shapes())
    assert last.lookup(texts, {}) is None
    with pytest.raises(InvalidResources) as caught:
        last.read(texts)
    (problem,) = caught.value.problems
    assert str(problem).encode() and problem.remedy
    assert last.read({"a.yaml": "kind: Organization\nid: a\n"})
