"""That the cluster was exported to another coordinator, or came from one. None was."""

import sqlalchemy as sa
from alembic import op

revision = "m0022"
down_revision = "m0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "moves",
        sa.Column("identity_sha256", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("coordinator_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), nullable=False),
        sa.Column("ahead_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("identity_sha256"),
    )
