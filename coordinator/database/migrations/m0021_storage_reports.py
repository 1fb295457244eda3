"""How the stores of published files stand, and which coordinator keeps each of them up; at first, none."""

import sqlalchemy as sa
from alembic import op

revision = "m0021"
down_revision = "m0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "storage_reports",
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("coordinator_id", sa.Text(), nullable=False),
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id", "place"),
    )
