"""What is handed out from memory, and to whom (handouts.py)."""

from dataclasses import replace

from coordinator.database.documents import Document, StoredObject, container_of
from coordinator.publishing.board import News
from coordinator.publishing.handouts import ASIDE_BYTES, DOCUMENT_BYTES, Handouts

SMALL = Document(
    snapshot_id="a", kind="snapshot", subject="*", scope="route_policy", authority_epoch=1, config_version=1,
    content_hash="sha256:1", issued_at=1, expires_at=2, envelope=b"envelope", signatures=(("key", b"signed"),),
    manifest=b"{}", sections=(b"one", b"two"),
)  # fmt: skip


def news(*names: str) -> News:
    return News((1, 1), b"head", names=frozenset(names))


def test_a_document_is_given_to_whom_the_newest_head_names_it_and_to_nobody_else() -> None:
    kept = Handouts()
    kept.keep([SMALL, replace(SMALL, snapshot_id="b")])
    assert kept.find("a", news("a")) == kept.find("a", news("a", "b")) == container_of(SMALL)
    assert kept.find("a", news("b")) is None
    assert kept.find("a", None) is None, "its node's head is not known here: it was removed, or never seen"
    assert kept.find("c", news("c")) is None


def test_what_is_large_or_named_alone_is_not_kept() -> None:
    kept = Handouts()
    kept.keep(
        [
            replace(SMALL, snapshot_id="large", sections=(bytes(DOCUMENT_BYTES),)),
            replace(SMALL, snapshot_id="named", sections=(StoredObject("sections/1", 3),)),
        ]
    )
    assert kept.find("large", news("large")) is kept.find("named", news("named")) is None


def test_of_more_than_there_is_room_for_those_asked_for_last_stay() -> None:
    kept = Handouts(most=3 * (ASIDE_BYTES + 20))
    kept.keep([SMALL, replace(SMALL, snapshot_id="b"), replace(SMALL, snapshot_id="c")])
    assert kept.find("a", news("a")) is not None
    kept.keep([replace(SMALL, snapshot_id="d"), SMALL])
    assert [name for name in "abcd" if kept.find(name, news(name)) is not None] == ["a", "c", "d"]
