"""Templates: a node's own names in a text, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import templates
from coordinator.declared.kinds import Node
from coordinator.declared.model import Subject
from coordinator.declared.templates import MissingNameError, Placeholder, TemplateError
from tests.coordinator.models import entry

SUBJECT = Subject(entry("edge-1"), Node("edge-1", site="default", labels={"app": "web", "rack.row": "7"}))
VALUES = templates.values_of(SUBJECT, "prod")
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)
pieces = st.lists(st.one_of(texts, st.sampled_from(sorted(VALUES)).map(lambda name: Placeholder(name, 0))), max_size=8)


def written(piece: str | Placeholder) -> str:
    return piece.replace("$", "$$") if isinstance(piece, str) else f"${{{piece.name}}}"


@given(pieces)
def test_what_is_written_is_what_is_rendered(found) -> None:
    """Texts stay as they are, dollars that are doubled among them; names become values."""
    text = "".join(map(written, found))
    wanted = "".join(each if isinstance(each, str) else VALUES[each.name] for each in found)
    template = templates.parse(text)
    assert template.render(VALUES) == wanted
    assert set(template.names) == {each.name for each in found if isinstance(each, Placeholder)}


@given(texts)
def test_any_text_is_a_template_or_named_faults(text) -> None:
    """And the fault's line is one of the text's."""
    try:
        template = templates.parse(text)
    except TemplateError as error:
        assert all(1 <= each.line <= text.count("\n") + 1 and each.remedy for each in error.faults)
        assert all("$" in text.split("\n")[each.line - 1] for each in error.faults)
    else:
        assert template.render(VALUES) == text.replace("$$", "$") or template.names


def test_every_name() -> None:
    text = "${node.id} ${node.site} ${node.kind} ${node.labels.app} ${node.labels.rack.row} ${cluster.id} $$1\n"
    assert templates.parse(text).render(VALUES) == "edge-1 default data web 7 prod $1\n"


def test_a_value_is_never_read_as_a_template() -> None:
    """What a label holds stays what it is."""
    subject = Subject(entry("n"), Node("n", labels={"app": "${node.id}"}))
    assert templates.parse("${node.labels.app}").render(templates.values_of(subject, "prod")) == "${node.id}"


def test_a_label_hides_no_other_name() -> None:
    subject = Subject(entry("n"), Node("n", labels={"id": "other"}))
    assert templates.parse("${node.id}").render(templates.values_of(subject, "prod")) == "n"


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ("a\n$b", 2, "write $$ for a dollar"),
        ("${node.ID}", 1, "did you mean node.id?"),
        ("\n\n${env.HOME}", 3, "known names"),
        ("${node.labels.}", 1, "known names"),
        ("${node.labels.UP}", 1, "known names"),
        ("${ node.id }", 1, "did you mean node.id?"),
        ("${node.id", 1, "write $$ for a dollar"),
        ("$", 1, "write $$ for a dollar"),
        ("${" + "x" * 500 + "}", 1, "write $$ for a dollar"),
    ],
)
def test_what_is_no_name(text: str, line: int, remedy: str) -> None:
    with pytest.raises(TemplateError) as caught:
        templates.parse(text)
    (fault,) = caught.value.faults
    assert fault.line == line
    assert remedy in fault.remedy


def test_all_faults_are_said_at_once() -> None:
    with pytest.raises(TemplateError) as caught:
        templates.parse("$a\n${x}\n$$ ${node.id}\n$")
    assert [each.line for each in caught.value.faults] == [1, 2, 4]


def test_a_node_without_the_label() -> None:
    template = templates.parse("a\n${node.labels.tier}\n${node.labels.tier}")
    assert dict(template.names) == {"node.labels.tier": 2}
    with pytest.raises(MissingNameError) as caught:
        template.render(VALUES)
    assert (caught.value.name, caught.value.line) == ("node.labels.tier", 2)
