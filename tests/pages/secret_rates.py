"""The part of docs/threat-model.md that says what secret detection finds, measured over tests/secret_corpus.py."""

import base64
from collections.abc import Callable

from coordinator.base import private_key_scan
from coordinator.declared import value_shapes
from snapshot.secrets import find_secret
from tests.citations import ROOT
from tests.secret_corpus import CONTEXTS, HARMLESS, SECRETS, samples

BEGIN, END = "<!-- made: what secret detection finds -->", "<!-- made: end -->"
Detector = Callable[[str], bool]


def by_node(text: str) -> bool:
    """As step 12 looks at a value under a name that says nothing."""
    return find_secret({"value": text}) is not None


def by_coordinator(text: str) -> bool:
    """As `apply` does, with what is shipped."""
    looked = by_node(text) or private_key_scan.find({"value": text}) is not None
    return looked or next(value_shapes.families_in(value_shapes.shipped_shapes(), text), None) is not None


def rate(family: str, detector: Detector) -> float:
    """Of the samples of a family, in each context."""
    texts = [put(text) for text in samples(family) for put in CONTEXTS.values()]
    return sum(map(detector, texts)) / len(texts)


def wrapped(family: str) -> float:
    texts = [base64.b64encode(text.encode()).decode() for text in samples(family)]
    return sum(map(by_coordinator, texts)) / len(texts)


def wrongly(detector: Detector) -> list[str]:
    return [text for text in HARMLESS if detector(text)]


def page() -> str:
    path = ROOT / "docs/threat-model.md"
    before, rest = path.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n\n{_table()}\n{END}{rest.split(END)[1]}"


def _table() -> str:
    rows = [(name, rate(name, by_node), rate(name, by_coordinator), wrapped(name)) for name in SECRETS]
    lines = ["| family | a node | `apply` | `apply`, in base64 |", "|---|---|---|---|"]
    lines += [f"| {name} | {_percent(node)} | {_percent(here)} | {_percent(deep)} |" for name, node, here, deep in rows]
    whole = [sum(each) / len(rows) for each in zip(*(row[1:] for row in rows), strict=True)]
    lines.append(f"| **all, each family counted alike** | {' | '.join(map(_percent, whole))} |")
    wrong = [(len(wrongly(detector)), len(HARMLESS)) for detector in (by_node, by_coordinator)]
    said = " and ".join(f"{who} {count} of {of}" for who, (count, of) in zip(("a node", "`apply`"), wrong, strict=True))
    return "\n".join(lines) + f"\n\nOf harmless texts, taken for a secret: by {said}.\n"


def _percent(share: float) -> str:
    return f"{share:.0%}"
