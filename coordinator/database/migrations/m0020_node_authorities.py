"""The CAs that nodes are told to believe, and of which of them each coordinator shows a certificate. None yet."""

import sqlalchemy as sa
from alembic import op

revision = "m0020"
down_revision = "m0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "node_authorities",
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("certificate_sha256"),
    )
    op.add_column("coordinators", sa.Column("authority_sha256", sa.Text(), nullable=False, server_default=""))
