"""What each coordinator says of itself. Until it says something, nothing is known."""

import sqlalchemy as sa
from alembic import op

revision = "m0017"
down_revision = "m0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_reports",
        sa.Column("coordinator_id", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("is_stopped", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("link", sa.BigInteger(), nullable=False),
        sa.Column("transition", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("coordinator_id"),
    )
