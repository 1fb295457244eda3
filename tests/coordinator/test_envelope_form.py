"""An envelope that is filled in is the one that is written anew, whatever its members say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.keys.envelope_form import EnvelopeForm
from snapshot import canonical
from snapshot.identifiers import format_time
from tests.examples import examples

GAPS = ("config_version", "content_hash", "refresh_after", "subject_node_id")
TEXT = st.text(st.sampled_from('a%()s"\\\n\x01\x7f\u2028é😀/{}')) | st.text()


def members(fixed: str, own: str, number: int, at: float) -> dict[str, object]:
    """As the object of an envelope has them; times in Unix seconds."""
    given = {"cluster_id": fixed, "scope_ids": (fixed, "%(x)s"), "min_trust_bundle_version": 3, "valid_from": None}
    return given | {"subject_node_id": own, "content_hash": own, "config_version": number, "refresh_after": at}


def written(said: dict[str, object]) -> bytes:
    return canonical.dumps(
        {**said, "scope_ids": list(said["scope_ids"]), "refresh_after": format_time(said["refresh_after"])}
    )


@examples(100)
@given(fixed=TEXT, own=TEXT, other=TEXT, number=st.integers(0, 2**53 - 1), at=st.integers(0, 2**32))
def test_it_is_as_if_written_anew(fixed: str, own: str, other: str, number: int, at: int) -> None:
    form = EnvelopeForm(written(members(fixed, other, 1, 1_800_000_000)), GAPS)
    said = members(fixed, own, number, at)
    assert form.fill(said) == written(said)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subject_node_id", 5),
        ("subject_node_id", None),
        ("config_version", "5"),
        ("config_version", True),
        ("refresh_after", "now"),
    ],
)
def test_a_member_of_another_type_is_no_envelope(name: str, value: object) -> None:
    said = members("prod", "node-a", 1, 1_800_000_000)
    form = EnvelopeForm(written(said), GAPS)
    with pytest.raises(AssertionError, match=name):
        form.fill(said | {name: value})


def test_what_is_no_envelope_has_no_form() -> None:
    for data, gaps in ((b"[]", ()), (b'{"a":1}', ("config_version",))):
        with pytest.raises(AssertionError):
            EnvelopeForm(data, gaps)
