"""Who is to get a new head, and how far the resources are, found by an index: it is asked all the time."""

import sqlalchemy as sa
from alembic import op

revision = "m0014"
down_revision = "m0013"
branch_labels = None
depends_on = None

_IS_BEHIND = sa.text("published < generation")


def upgrade() -> None:
    op.add_column("nodes", sa.Column("published", sa.BigInteger(), nullable=False, server_default="-1"))
    op.execute(
        "UPDATE nodes SET published = (SELECT generation FROM heads WHERE heads.node_id = nodes.node_id)"
        " WHERE EXISTS (SELECT 1 FROM heads WHERE heads.node_id = nodes.node_id)"
    )
    op.create_index("nodes_behind", "nodes", ["node_id"], sqlite_where=_IS_BEHIND, postgresql_where=_IS_BEHIND)
    op.create_index("heads_by_refresh", "heads", ["refresh_after", "node_id"])
    op.create_index("resources_by_revision", "resources", ["revision"])
