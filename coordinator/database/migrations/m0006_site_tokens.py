"""Tokens with a count, for nodes that are made from an image, and who has used them (rules J17, K26)."""

import sqlalchemy as sa
from alembic import op

revision = "m0006"
down_revision = "m0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tokens", sa.Column("uses", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("tokens", sa.Column("used", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("tokens", sa.Column("nodes", sa.Text()))
    op.create_table(
        "token_uses",
        sa.Column("jti", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("jti", "node_id", "certificate_sha256"),
    )
    op.execute("UPDATE tokens SET used = 1 WHERE used_at IS NOT NULL")
