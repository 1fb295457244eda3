"""What nodes have refused, and what they run instead."""

import sqlalchemy as sa
from alembic import op

revision = "m0005"
down_revision = "m0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "standing_refusals",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("refused_epoch", sa.BigInteger(), nullable=False),
        sa.Column("refused_version", sa.BigInteger(), nullable=False),
        sa.Column("refused_hash", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("running_epoch", sa.BigInteger(), nullable=True),
        sa.Column("running_version", sa.BigInteger(), nullable=True),
        sa.Column("running_hash", sa.Text(), nullable=True),
        sa.Column("renewed_at", sa.Double(), nullable=False),
        sa.Column("withheld", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "scope"),
    )
