"""The conformance vectors through the library: documents that another implementation of the format has made."""

import json

import pytest

from holdfast.node import context
from snapshot.container import ChunkParts
from snapshot.identifiers import parse_time
from snapshot.reasons import Rejected
from snapshot.verify import AlreadyApplied, NotYetValid, Verified, verify
from tests.citations import ROOT

VECTORS = ROOT / "tests/vectors"
CASES = json.loads((VECTORS / "cases.json").read_text())


def verdict_on(case):
    """Verdict, step and reason, as the cases write them."""
    holder, kind = context.load(VECTORS / case["context"])
    parts = ChunkParts(context.chunks(VECTORS / case["document"]))
    try:
        verdict = verify(parts, holder, kind=kind, now=parse_time(case["now"]))
    except Rejected as refused:
        return {"verdict": "rejected", "step": refused.step, "reason": str(refused.reason)}
    named = {
        Verified: {"verdict": "verified", "step": None, "reason": None},
        AlreadyApplied: {"verdict": "already_applied", "step": None, "reason": None},
        NotYetValid: {"verdict": "pending", "step": 7, "reason": "not_yet_valid"},
    }
    return named[type(verdict)]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_verdict_is_the_vectors(case):
    """rules S11"""
    assert verdict_on(case) == case["expect"]


def test_every_vector_is_a_case():
    """A document that nothing judges would prove nothing; held ones are what contexts hold (rules S11)."""
    judged = {case["document"] for case in CASES}
    lying = {f"documents/{path.name}" for path in (VECTORS / "documents").iterdir()}
    assert {name for name in lying - judged if not name.startswith("documents/held-")} == set()
