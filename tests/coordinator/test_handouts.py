"""What is handed out from memory, and to whom (handouts.py)."""

from dataclasses import replace

from coordinator.database.documents import Document, StoredObject, container_of
from coordinator.publishing.board import News
from coordinator.publishing.handouts import ASIDE_BYTES, BESIDE_BYTES, DOCUMENT_BYTES, Handouts
from wire.messages import INLINE_DOCUMENTS

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


def test_what_a_head_names_anew_goes_with_it_to_who_holds_the_one_before_it() -> None:
    """protocol 1: and nothing that it does not name, whatever is said to be new"""
    kept = Handouts()
    kept.keep([SMALL, replace(SMALL, snapshot_id="b"), replace(SMALL, snapshot_id="c")])
    of_a = replace(news("a", "b", "lost"), follows=4, new=("a", "c", "lost"))
    assert kept.beside(of_a, 4, 1000) == (container_of(SMALL),)
    assert kept.beside(of_a, 3, 1000) == kept.beside(of_a, 0, 1000) == ()
    kept.keep([replace(SMALL, snapshot_id="large", sections=(bytes(BESIDE_BYTES),))])
    assert kept.beside(replace(news("large"), new=("large",)), 0, 1 << 20) == (), "an increment may be much less"
    assert kept.beside(news("a"), 0, 1000) == (), "of a head that was read again nobody knows what is new"


def test_beside_a_head_there_are_as_many_as_there_is_room_for() -> None:
    kept, names = Handouts(), tuple(f"d{number}" for number in range(INLINE_DOCUMENTS + 1))
    kept.keep(replace(SMALL, snapshot_id=name) for name in names)
    whole, size = replace(news(*names), new=names), len(container_of(SMALL))
    assert len(kept.beside(whole, 0, 1 << 20)) == INLINE_DOCUMENTS
    assert len(kept.beside(whole, 0, 2 * size)) == 2
    assert kept.beside(whole, 0, size - 1) == kept.beside(whole, 0, 0) == ()
