"""`holdfast trust confirm`: what is compared, and what is said of it (threats D-19)."""

import json

import pytest

from tests.holdfast.lab import holdfast

ONE, TWO = "sha256:" + "a" * 64, "sha256:" + "b" * 64


async def test_the_right_ones_are_confirmed(api):
    api.roots = {ONE, TWO}
    done = await holdfast("trust", "confirm", "--threshold", 2, TWO, ONE, at=api)
    assert (done.status, done.out) == (0, f"confirmed: {ONE}, {TWO}; 2 must sign\n")
    done = await holdfast("trust", "confirm", "--threshold", 2, "--json", ONE, TWO, at=api)
    assert json.loads(done.out) == {"outcome": "confirmed", "root_key_ids": [ONE, TWO], "root_threshold": 2}


async def test_others_are_not_and_that_is_an_alarm(api):
    api.roots = {ONE}
    done = await holdfast("trust", "confirm", "--threshold", 1, TWO, at=api)
    assert (done.status, done.out) == (1, "")
    assert "not confirmed" in done.err and "find out who answered its join" in done.err


@pytest.mark.parametrize("words", [[], ["sha256:" + "A" * 64], ["a" * 64], [ONE[:-1]]])
async def test_what_is_no_key_id_is_wrong_usage(api, words):
    done = await holdfast("trust", "confirm", "--threshold", 1, *words, at=api)
    assert done.status == 2


async def test_the_threshold_is_to_be_compared_too(api):
    done = await holdfast("trust", "confirm", ONE, at=api)
    assert (done.status, "--threshold" in done.err) == (2, True)
