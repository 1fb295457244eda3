"""Since when somebody has been ready to see members: what a trim goes by (rules X29). At first that is not known."""

import sqlalchemy as sa
from alembic import op

revision = "m0015"
down_revision = "m0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "readiness",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
