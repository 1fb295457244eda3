"""Texts in which a node finds its own name: `${node.id}`, and `$$` for a dollar. Pure, and nothing but substitution.

    parse(text)                    what stands there, or every fault with its line
    values_of(subject, cluster)    what a node's placeholders stand for
    Template.render(values)        the node's text, or MissingNameError

There is no logic, no default and no other source: a text is the same wherever and whenever it is rendered, so what an
operator is shown is what a node gets. A lone dollar is a fault rather than text: whoever forgets a brace is told so,
instead of a node that reads `$node.id}`.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from coordinator.declared.model import Subject
from snapshot.identifiers import is_id

NAMES = ("cluster.id", "node.id", "node.kind", "node.site")
LABEL = "node.labels."
_DOLLAR = re.compile(r"\$(?:(\$)|\{([^{}$\n]{0,128})\})?")
_LONGEST_SHOWN = 64


@dataclass(frozen=True)
class TemplateFault:
    """One thing wrong with a template: its line (from 1), what it is, and what to do."""

    line: int
    message: str
    remedy: str


class TemplateError(ValueError):
    """A text that is no template; all of its faults at once."""

    def __init__(self, faults: tuple[TemplateFault, ...]) -> None:
        super().__init__("; ".join(f"line {fault.line}: {fault.message}" for fault in faults))
        self.faults = faults


class MissingNameError(ValueError):
    """A name that means nothing for a node, where it stands first."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(f"line {line}: there is no {name}")
        self.name, self.line = name, line


@dataclass(frozen=True)
class Placeholder:
    """A name that stands for a value of the node's, and its line."""

    name: str
    line: int


@dataclass(frozen=True)
class Template:
    """Texts and placeholders in their order."""

    pieces: tuple[str | Placeholder, ...]

    @cached_property
    def names(self) -> Mapping[str, int]:
        """What it asks for, sorted, each with the line where it stands first."""
        found: dict[str, int] = {}
        for piece in self.pieces:
            if isinstance(piece, Placeholder):
                found.setdefault(piece.name, piece.line)
        return dict(sorted(found.items()))

    def render(self, values: Mapping[str, str]) -> str:
        """MissingNameError for the first name without a value."""
        return "".join(piece if isinstance(piece, str) else _value(piece, values) for piece in self.pieces)


def parse(text: str) -> Template:
    """TemplateError with every fault: a name that is not known, a dollar that begins nothing."""
    pieces: list[str | Placeholder] = []
    faults: list[TemplateFault] = []
    end, line = 0, 1
    for found in _DOLLAR.finditer(text):
        pieces.append(text[end : found.start()])
        line += text.count("\n", end, found.start())
        end = found.end()
        if found[1]:
            pieces.append("$")
        elif found[2] is not None and _is_known(found[2]):
            pieces.append(Placeholder(found[2], line))
        else:
            faults.append(_fault(found[2], line))
    if faults:
        raise TemplateError(tuple(faults))
    return Template((*pieces, text[end:]))


def values_of(subject: Subject, cluster_id: str) -> dict[str, str]:
    """By the names that a template may ask for; a label by `node.labels.` and its name."""
    labels = {f"{LABEL}{name}": value for name, value in subject.declared.labels.items()}
    member = subject.member
    about = {"node.id": member.node_id, "node.kind": member.kind, "node.site": member.site_id}
    return {**labels, **about, "cluster.id": cluster_id}


def _is_known(name: str) -> bool:
    return name in NAMES or (name.startswith(LABEL) and is_id(name.removeprefix(LABEL)))


def _fault(name: str | None, line: int) -> TemplateFault:
    if name is None:
        return TemplateFault(line, "a dollar that begins no placeholder", "write $$ for a dollar")
    near = difflib.get_close_matches(name, NAMES, 1)
    known = ", ".join((*NAMES, f"{LABEL}NAME"))
    remedy = f"did you mean {near[0]}?" if near else f"known names: {known}; write $${{ for text"
    shown = name if name.isprintable() and len(name) <= _LONGEST_SHOWN else "that"
    return TemplateFault(line, f"there is no name {shown}", remedy)


def _value(piece: Placeholder, values: Mapping[str, str]) -> str:
    if piece.name not in values:
        raise MissingNameError(piece.name, piece.line)
    return values[piece.name]
