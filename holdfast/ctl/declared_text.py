"""Declared resources as YAML that `apply` takes back as they are (coordinator/declared/yaml_source.py reads it).

Text is quoted where that reader, or another one of YAML, could take it for something else; PyYAML's own choice would
not do, since its rules for numbers are others.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from wire.printable import escape

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
_OTHERS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})  # YAML 1.1 takes them for values
_WIDE = 1 << 20  # no line is folded


class _Written(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # one of two classes
    """What it is given was read from JSON, where nothing is shared: it writes no alias."""


def _text(dumper: Any, value: str) -> Any:  # noqa: ANN401 - as PyYAML has it
    plain = _PLAIN.fullmatch(value) and value.lower() not in _OTHERS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


_Written.add_representer(str, _text)


def to_yaml(resources: Iterable[Mapping[str, object]]) -> str:
    """One YAML document for each `{kind, id, spec}`."""
    documents = (
        {name: resource[name] for name in ("kind", "id", "spec") if resource[name] != {}} for resource in resources
    )
    options: dict[str, Any] = {"explicit_start": True, "sort_keys": False, "default_flow_style": None}
    text = str(yaml.dump_all(documents, Dumper=_Written, width=_WIDE, allow_unicode=True, **options))
    return "\n".join(escape(line, _in_quotes) for line in text.split("\n"))


def _in_quotes(character: str) -> str:
    """What is not printable stands between double quotes only, where YAML has escapes."""
    return f"\\U{ord(character):08X}"
