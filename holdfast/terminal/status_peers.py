"""The part of a node's status that is about other nodes: from whom it has what it runs, whom it asks, who asks it."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.terminal.durations import in_words
from holdfast.terminal.relay_words import count_text, giver_text, relay_text, size_text
from wire.local.node_status import AskedSource, NodeStatus, ReplicatedStore, StorageCondition


def origin_text(scope: str, status: NodeStatus) -> str:
    """Of what is active now; what another agent took is not known."""
    origin, active = status.origins.get(scope), status.scopes[scope].active
    return giver_text(origin) if origin and active and origin.snapshot_id == active.snapshot_id else "-"


def neighbourhood(status: NodeStatus) -> Iterator[RenderableType]:
    """Nothing of a node without peers."""
    peers = [source for source in status.sources if source.node_id is not None]
    if peers:
        yield Text()
        yield _peers(peers, status.trust_bundle_version)
    keeps = status.relay
    if keeps is not None and (keeps.is_relay or keeps.heads or keeps.documents or keeps.handed_bytes):
        yield Text()
        yield Text(f"keeps for its neighbours: {relay_text(keeps)}")
    if status.storage is not None:
        yield Text()
        yield Text(f"stores what is published: {_storage_text(status.storage)}")
        if status.storage.sources:
            yield _stores(status.storage.sources)


def made_table(name: str, *columns: str) -> Table:
    """Names stay in one piece, to be found and copied: what is narrow is told in words, which fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column(name, no_wrap=True, overflow="fold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _peers(peers: list[AskedSource], trusted: int) -> Table:
    """Who relays for this node first."""
    table = made_table("PEER", "IS", "ASKED", "LAST WORKED", "BEHIND")
    for peer in sorted(peers, key=lambda peer: not peer.relay):
        where = "at this site" if peer.near else "elsewhere"
        role = Text("relay of this site", style="bold") if peer.relay else Text(where)
        worked = "-" if peer.worked_s_ago is None else f"{in_words(peer.worked_s_ago)} ago"
        asked = f"in {in_words(peer.again_in_s)}" if peer.again_in_s else peer.peer_set or "-"
        table.add_row(peer.node_id, role, asked, worked, _behind(peer, trusted))
    return table


def _storage_text(storage: StorageCondition) -> str:
    kept = f"{size_text(storage.bytes)} of {size_text(storage.most_bytes)}"
    words = f"{count_text(storage.files, 'file')}, {kept}"
    if not storage.sources:
        return words
    return f"{words}; {'a coordinator brings it' if storage.has_coordinator else 'copied from other stores'}"


def _stores(sources: Iterable[ReplicatedStore]) -> Table:
    """One line each: what has come of it, and what has not."""
    table = made_table("COPIED FROM", "LAST LISTED", "COPIED", "REFUSED", "NOT HERE", "TROUBLE")
    for store in sources:
        listed = "-" if store.worked_s_ago is None else f"{in_words(store.worked_s_ago)} ago"
        again = f"; again in {in_words(store.again_in_s)}" if store.again_in_s else ""
        trouble = Text(f"{store.error}{again}" if store.error else "-", style="yellow" if store.error else "")
        table.add_row(store.storage, listed, str(store.copied), str(store.refused), str(store.lacking), trouble)
    return table


def _behind(peer: AskedSource, trusted: int) -> Text:
    """By what it has said, and by what it did not have when it was asked."""
    told = peer.trust_bundle_version
    found = [f"trust bundle {told}, here {trusted}"] if told is not None and told < trusted else []
    if peer.lacks:
        found.append(f"lacks the last {count_text(peer.lacks, 'document')}")
    return Text(", ".join(found) or "-", style="yellow" if found else "")
