"""YAML as the operator wrote it: plain values, and the line of each (so that an error can name it).

A small, plain YAML: no anchors, aliases or tags, no name twice; `true`, `false`, `null`, numbers as in JSON, and all
the rest is text. So `no`, `1e3x`, `22:30` and `0755` stay what they look like.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from snapshot.identifiers import MAX_INTEGER

Path = tuple[str | int, ...]

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,15})", re.ASCII)
_FLOAT = re.compile(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,21})?([eE][+-]?[0-9]{1,2})?", re.ASCII)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # YAML 1.1, 5.1
_WITH_EXPONENT = 1e21  # from here on JSON writes a double with one, so nobody takes it for an integer
MAX_DEPTH = 24
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)


class UnreadableYaml(ValueError):
    """Text that is no such YAML: `line` (from 1), `path` of the member, what is wrong, and the remedy."""

    def __init__(self, line: int, path: Path, message: str, remedy: str) -> None:
        super().__init__(message)
        self.line, self.path, self.message, self.remedy = line, path, message, remedy


@dataclass(frozen=True)
class YamlDocument:
    """One YAML document: its value, and the line (from 1) of every member and element by its path."""

    value: object
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int:
        """Of the member, or of the nearest one around it that was written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def documents(text: str) -> Iterator[YamlDocument]:
    """Every document of a YAML stream; an empty one is passed over. Unreadable for anything else."""
    check_characters(text)
    try:
        _check_events(text)
        nodes = list(yaml.compose_all(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise UnreadableYaml(line, (), str(error.problem or error.context), "correct the YAML") from error
    except yaml.YAMLError as error:
        raise UnreadableYaml(1, (), "this is no YAML", "correct the YAML") from error
    for node in nodes:
        lines: dict[Path, int] = {}
        value = _value(node, (), lines)
        if value is not None:
            yield YamlDocument(value, lines)


def quote(text: str) -> str:
    """As an operator may write it in one line, also within a list or a mapping; printable whatever it is."""
    if _PLAIN.fullmatch(text) and text not in _WORDS:
        return text
    return yaml.safe_dump(text, default_style='"', width=math.inf).rstrip("\n")


def check_characters(text: str) -> None:
    """By ourselves, since the parser says neither which character it refuses nor where."""
    found = _NO_YAML.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        message = f"the character U+{ord(found[0]):04X} may not stand in YAML"
        raise UnreadableYaml(line, (), message, "remove it")


def _check_events(text: str) -> None:
    """Before anything is built: no alias that could multiply (a billion laughs), no depth beyond recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise UnreadableYaml(line, (), "anchors and aliases are not taken", "write the value out")
        if getattr(event, "tag", None) is not None:
            raise UnreadableYaml(line, (), "tags are not taken", "write a plain value")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
        if depth > MAX_DEPTH:
            raise UnreadableYaml(line, (), "nested too deep", f"use at most {MAX_DEPTH} levels")


def _value(node: Node, path: Path, lines: dict[Path, int]) -> object:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, SequenceNode):
        return [_value(inner, (*path, index), lines) for index, inner in enumerate(node.value)]
    return _scalar(node, path, lines[path])


def _mapping(node: MappingNode, path: Path, lines: dict[Path, int]) -> dict[str, object]:
    value: dict[str, object] = {}
    for name_node, value_node in node.value:
        line = name_node.start_mark.line + 1
        name = name_node.value
        if not isinstance(name_node, ScalarNode) or not isinstance(name, str):
            raise UnreadableYaml(line, path, "a member name must be text", "write a plain name")
        if name in value:
            raise UnreadableYaml(line, (*path, name), "this name was given before", "keep one of them")
        value[name] = _value(value_node, (*path, name), lines)
        lines[(*path, name)] = line
    return value


def _scalar(node: Node, path: Path, line: int) -> object:
    text: str = node.value
    if isinstance(node, ScalarNode) and node.style:
        return text  # quoted, or a block
    if text in _WORDS:
        return _WORDS[text]
    if not _FLOAT.fullmatch(text):
        return text
    number = int(text) if _INTEGER.fullmatch(text) else float(text)
    if MAX_INTEGER < abs(number) < _WITH_EXPONENT and number == int(number):
        raise UnreadableYaml(line, path, "an integer beyond 2^53-1", "write it as text, in quotes")
    return number
