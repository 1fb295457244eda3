"""When each node has last asked for its head (rules K18, P19)."""

import sqlalchemy as sa
from alembic import op

revision = "m0004"
down_revision = "m0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "head_requests",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
