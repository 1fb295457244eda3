"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "m0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "allowlist",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("certificate_sha256", sa.Text(), nullable=True),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id"),
    )
    op.create_index("audit_by_action", "audit", ["action", "at"], unique=False)
    op.create_table(
        "cluster",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cluster_id", sa.Text(), nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("state_id", sa.Text(), nullable=False),
        sa.Column("revocations_version", sa.BigInteger(), nullable=False),
        sa.Column("last_issued_at", sa.BigInteger(), nullable=False),
        sa.Column("nonce_key", sa.LargeBinary(), nullable=False),
        sa.Column("initialised_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "coordinators",
        sa.Column("coordinator_id", sa.Text(), nullable=False),
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("token_key_id", sa.Text(), nullable=False),
        sa.Column("token_public_key", sa.LargeBinary(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("coordinator_id"),
        sa.UniqueConstraint("token_key_id"),
    )
    op.create_table(
        "document_sections",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("object_key", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id", "position"),
    )
    op.create_index("document_sections_by_object", "document_sections", ["object_key"], unique=False)
    op.create_table(
        "documents",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), nullable=False),
        sa.Column("config_version", sa.BigInteger(), nullable=False),
        sa.Column("base_config_version", sa.BigInteger(), nullable=True),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=False),
        sa.Column("envelope", sa.LargeBinary(), nullable=False),
        sa.Column("signatures", sa.Text(), nullable=False),
        sa.Column("manifest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id"),
    )
    op.create_index(
        "documents_by_scope", "documents", ["subject", "scope", "kind", "base_config_version"], unique=False
    )
    op.create_table(
        "events",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "incarnation", "sequence"),
    )
    op.create_index("events_by_time", "events", ["received_at"], unique=False)
    op.create_table(
        "heads",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("refresh_after", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("listing", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
    op.create_table(
        "heartbeat_history",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("head_generation", sa.BigInteger(), nullable=False),
        sa.Column("head_grade", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "slot"),
    )
    op.create_table(
        "node_status",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("head_epoch", sa.BigInteger(), nullable=False),
        sa.Column("head_generation", sa.BigInteger(), nullable=False),
        sa.Column("head_grade", sa.Text(), nullable=False),
        sa.Column("behind", sa.Boolean(), nullable=False),
        sa.Column("recorded", sa.Text(), nullable=False),
        sa.Column("acknowledged_event", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
    op.create_table(
        "nodes",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=False),
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("next_certificate", sa.LargeBinary(), nullable=True),
        sa.Column("next_certificate_sha256", sa.Text(), nullable=True),
        sa.Column("direct_url", sa.Text(), nullable=True),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.Double(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("node_id"),
        sa.UniqueConstraint("certificate_sha256"),
        sa.UniqueConstraint("next_certificate_sha256"),
    )
    op.create_table(
        "objects",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "pointers",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "published",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("config_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("published_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", "scope", "authority_epoch", "config_version"),
    )
    op.create_index("published_by_document", "published", ["snapshot_id"], unique=False)
    op.create_table(
        "recoveries",
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("from_config_version", sa.BigInteger(), nullable=False),
        sa.Column("to_config_version", sa.BigInteger(), nullable=False),
        sa.Column("to_content_hash", sa.Text(), nullable=False),
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("snapshot_id"),
        sa.UniqueConstraint("node_id", "scope", "nonce", name="one_use_of_a_nonce"),
    )
    op.create_table(
        "resources",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id"),
    )
    op.create_table(
        "retired_certificates",
        sa.Column("certificate_sha256", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("certificate_sha256"),
    )
    op.create_table(
        "revocations",
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("category", "value"),
    )
    op.create_table(
        "sites",
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("site_id"),
    )
    op.create_table(
        "tokens",
        sa.Column("jti", sa.Text(), nullable=False),
        sa.Column("site_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=True),
        sa.Column("issued_by", sa.Text(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("used_at", sa.Double(), nullable=True),
        sa.Column("used_by", sa.Text(), nullable=True),
        sa.Column("used_certificate_sha256", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("jti"),
    )
    op.create_table(
        "tombstones",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("node_id"),
    )
    op.create_table(
        "trust_bundles",
        sa.Column("config_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("authority_epoch", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_id", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("config_version"),
        sa.UniqueConstraint("snapshot_id"),
    )
    op.create_table(
        "used_nonces",
        sa.Column("nonce", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("nonce"),
    )
