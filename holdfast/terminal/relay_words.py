"""From whom documents came, and what a node keeps for its neighbours, in words for people."""

from collections.abc import Mapping

from wire.messages import DocumentOrigin, RelayCondition

_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_WAYS: Mapping[str, str] = {"import": "a file", "join": "the join", "pending": "its slot"}


def count_text(count: int, noun: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_text(size: int) -> str:
    """`12 MiB`, `1.5 GiB`, `17 bytes`."""
    for unit, name in _SIZES:
        if size >= unit:
            count = size / unit
            return f"{count:.1f} {name}" if count < 10 and size % unit else f"{count:.0f} {name}"
    return count_text(size, "byte")


def giver_text(origin: DocumentOrigin) -> str:
    """`relay ulm-1`, `coordinator`, `storage https://mirror:443`: where a coordinator alone is meant, which one says
    the address to who asks with --json.
    """
    if origin.node_id is not None:
        return f"{origin.way or 'peer'} {origin.node_id}"
    if origin.way is None:
        return origin.source
    if origin.way in _WAYS:
        return _WAYS[origin.way]
    return origin.way if origin.way == "coordinator" else f"{origin.way} {origin.source}"


def relay_text(keeps: RelayCondition) -> str:
    """In one line."""
    role, nodes, _, _, kept = relay_cells(keeps)
    held = f"{count_text(keeps.heads, 'head')} and {count_text(keeps.documents, 'document')}"
    words = f"{role}, for {nodes}: {held}, {kept}"
    if keeps.bytes_per_second:
        words += f"; handed out {size_text(keeps.handed_bytes)}, at most {size_text(keeps.bytes_per_second)} a second"
    if keeps.waiting:
        words += f", {count_text(keeps.waiting, 'answer')} waiting"
    if keeps.is_relay and keeps.fetch_most_bytes:
        words += (
            f"; fetched for them alone {size_text(keeps.fetched_bytes)} of {size_text(keeps.fetch_most_bytes)} an hour"
        )
    return words


def relay_cells(keeps: RelayCondition) -> tuple[str, str, str, str, str]:
    """What it is, for how many, heads, documents, how much of how much."""
    role = "relay" if keeps.is_relay else "neighbour"
    kept = f"{size_text(keeps.bytes)} of {size_text(keeps.most_bytes)}"
    return role, count_text(len(keeps.for_nodes), "node"), str(keeps.heads), str(keeps.documents), kept
