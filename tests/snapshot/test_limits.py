"""The limits of format.md 10. Each edge is tested where the limit is kept; here, that the numbers are the format's."""

from dataclasses import FrozenInstanceError, asdict

import pytest

from snapshot.limits import DEFAULT, Limits

KIB, MIB = 1024, 1024 * 1024


def test_the_numbers_are_those_of_the_format():
    assert asdict(DEFAULT) == {
        "envelope_bytes": 64 * KIB,
        "envelope_depth": 6,
        "manifest_bytes": 4 * MIB,
        "sections": 20_000,
        "section_bytes": 1 * MIB,
        "content_bytes": 256 * MIB,
        "json_depth": 32,
        "json_values": 200_000,
        "string_bytes": 64 * KIB,
        "signatures": 16,
        "signature_bytes": 512,
        "trust_bundle_bytes": 1 * MIB,
        "trust_bundle_keys": 64,
        "patch_operations": 1_000,
        "pointer_tokens": 32,
    }


def test_limits_do_not_change():
    with pytest.raises(FrozenInstanceError):
        Limits().section_bytes = 2
