"""Where in a file something looks like a secret: the line that makes it whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import contents, value_shapes

SHAPES = value_shapes.shipped_shapes()
SECRET = "AKIA" + "Z7Q2M4X6B3N5V1K8"
HARMLESS = ("", "server {", "  listen 80;", "# a word of somebody", "user = nobody", "x" * 900)


def found(text: str) -> list[int]:
    return [line for line, _ in contents.secrets_in(contents.split(text.encode()), SHAPES)]


@given(st.lists(st.sampled_from(HARMLESS), max_size=80), st.lists(st.sampled_from(HARMLESS), max_size=80))
def test_its_line_is_named(before: list[str], after: list[str]) -> None:
    assert found("\n".join([*before, *after])) == []
    assert found("\n".join([*before, f"key = {SECRET}", *after])) == [len(before) + 1]


@pytest.mark.parametrize("before", [0, 1, 7, 20_000])
def test_also_in_a_file_of_several_parts(before: int) -> None:
    text = f"{'# a line of somebody, and another word' * 2}\n" * before + f"key = {SECRET}\n" + "\n" * before
    assert found(text) == [before + 1]


def test_the_first_of_two_is_named() -> None:
    lines = ["", f"key = {SECRET}", "", f"key = {SECRET}"]
    assert found("\n".join(lines)) == [2]
    assert found("\n".join(lines[2:])) == [2]
