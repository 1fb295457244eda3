"""What is said of a refusal: never more of a stranger's text than fits a line."""

from coordinator.base.refusal import bound_text


def test_text_from_outside_is_bounded_and_escaped() -> None:
    """threats D-59"""
    assert bound_text("plain") == "plain"
    assert bound_text("a\x1b[2Jb\x00") == "a\\x1b[2Jb\\x00"
    assert bound_text("\ud800") == "\\ud800"
    assert len(bound_text("x" * 1_000)) == 256
