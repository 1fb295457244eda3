"""Which nodes each replica is publishing for, of several over one PostgreSQL; at first, none of any."""

import sqlalchemy as sa
from alembic import op

revision = "m0018"
down_revision = "m0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "publishing_claims",
        sa.Column("coordinator_id", sa.Text(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("node_ids", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("coordinator_id"),
    )
