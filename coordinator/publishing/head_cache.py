"""What is read of published documents beside documents.py: heads for the board, and which have moved elsewhere."""

from sqlalchemy import select

from coordinator.database import documents, schema
from coordinator.database.database import Database
from coordinator.publishing import heads
from coordinator.publishing.board import News, Pair
from coordinator.publishing.publisher import news_of


def latest_head(database: Database, node_id: str) -> News | None:
    """The head that is out for a node, or None."""
    with database.read() as transaction:
        published = heads.published_head(transaction, node_id)
        if published is None:
            return None
        head = documents.head_in(transaction, node_id)
        listed, coming = documents.listing(transaction, node_id), documents.candidates(transaction, [node_id])
    return news_of(head, published.refresh_after, documents.names_in(listed, coming.get(node_id, {})))


def pairs(database: Database) -> dict[str, Pair]:
    """(epoch, generation) of every head."""
    table = schema.heads
    with database.read() as transaction:
        rows = transaction.rows(select(table.c.node_id, table.c.authority_epoch, table.c.generation))
    return {row.node_id: (row.authority_epoch, row.generation) for row in rows}
