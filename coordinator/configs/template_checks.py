"""What schemas judge of templates: each node's own text, and those that are the same once. Pure.

Who the nodes are is known once everything else of an apply is: all that are members or declared in the state that it
makes. A node that joins later without being declared is not among them, nor one that lacks a label that is asked for:
of that one references.py speaks.
"""

from collections.abc import Iterable, Iterator, Mapping

from coordinator.configs.config_files import SchemaCheck, TemplateCheck
from coordinator.declared import templates
from coordinator.declared.assignment import is_given
from coordinator.declared.fields import FieldFault
from coordinator.declared.foresight import with_declared_members
from coordinator.declared.model import Model, Subject
from coordinator.declared.resources import InvalidResources

TEXT_BYTES = 32 << 20  # of all that an apply has judged: it is in memory at once, here and in the child
_SMALLER = "make it smaller, ask for less that differs from node to node, or leave the schema out"


def checks_of(model: Model, asked: Iterable[TemplateCheck]) -> list[SchemaCheck]:
    """The texts, each with a node that is given it; InvalidResources where it is too much to be judged."""
    if not (pending := list(asked)):
        return []
    model = with_declared_members(model)
    found, size = [], 0
    for check in pending:
        for judged in _of_template(model, check):
            found.append(judged)
            size += len(judged.value)
            if size > TEXT_BYTES:
                message = f"differs from node to node, and has more than {TEXT_BYTES >> 20} MiB for a schema to judge"
                raise InvalidResources([check.declared.problem(FieldFault(check.at, message, _SMALLER))])
    return found


def _of_template(model: Model, check: TemplateCheck) -> Iterator[SchemaCheck]:
    for node_ids, values in _readers(model, check):
        value = check.template.render(values).encode()
        yield SchemaCheck(check.declared, check.at, check.name, check.schema, value, tuple(node_ids))


def _readers(model: Model, check: TemplateCheck) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    """Nodes for which all that is asked for is the same, in the order of their ids, and what it is."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for subject in model.subjects.values():
        if is_given(model.configs[check.config_id], subject):
            values = _values(model, check, subject)
            if values is not None:
                groups.setdefault(values, []).append(subject.node_id)
    for values, node_ids in groups.items():
        yield node_ids, dict(zip(check.template.names, values, strict=True))


def _values(model: Model, check: TemplateCheck, subject: Subject) -> tuple[str, ...] | None:
    known = templates.values_of(subject, model.cluster_id)
    values = tuple(known[name] for name in check.template.names if name in known)
    return values if len(values) == len(check.template.names) else None
