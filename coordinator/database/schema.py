"""The tables, one schema for SQLite and PostgreSQL (rules S1). One database holds one cluster.

Times are Unix seconds: BigInteger where a document carries them, Double where they were read from a clock. JSON is kept
as canonical text. A change here needs a new file in migrations/; a test compares the two.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData()
Long = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows itself for INTEGER alone

# --- the cluster's authority ---------------------------------------------------------------------------------------

cluster = Table(
    "cluster",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("cluster_id", Text, nullable=False),
    Column("authority_epoch", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),  # raised by every change of declared state or membership
    Column("state_id", Text, nullable=False),  # random, new with each revision: names exactly this state
    Column("revocations_version", BigInteger, nullable=False),
    Column("last_issued_at", BigInteger, nullable=False),  # issued_at never goes back: rules K47
    Column("nonce_key", LargeBinary, nullable=False),
    Column("initialised_at", Double, nullable=False),
    Column("put_back_epoch", BigInteger),  # proven of this epoch: the database was restored (rules K41)
)

coordinators = Table(
    "coordinators",
    metadata,
    Column("coordinator_id", Text, primary_key=True),
    Column("site_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("certificate_sha256", Text, nullable=False),
    Column("token_key_id", Text, nullable=False, unique=True),
    Column("token_public_key", LargeBinary, nullable=False),  # SubjectPublicKeyInfo DER: rules K26
    Column("added_at", Double, nullable=False),
    Column("identity_sha256", Text, nullable=False, server_default=""),  # keys/identity.py; nothing: none pinned yet
    Column("authority_sha256", Text, nullable=False, server_default=""),  # of the CA of what it shows: ca_exchange.py
)

node_authorities = Table(  # CAs that nodes are told to believe: ca_exchange.py
    "node_authorities",
    metadata,
    Column("certificate_sha256", Text, primary_key=True),
    Column("certificate", LargeBinary, nullable=False),
    Column("standing", Text, nullable=False),  # "current", "next", "other"
    Column("added_at", Double, nullable=False),
)

coordinator_reports = Table(  # the last word of each, of itself: membership/replica_reports.py
    "coordinator_reports",
    metadata,
    Column("coordinator_id", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("version", Text, nullable=False),
    Column("is_stopped", Boolean, nullable=False),
    Column("reason", Text, nullable=False),  # why it is not ready, or nothing
    Column("certificate_sha256", Text, nullable=False),  # the one that it shows
    Column("link", BigInteger, nullable=False),  # the newest of the history that it has seen, or 0
    Column("transition", Text, nullable=False),
)

moves = Table(  # of the whole cluster, to another coordinator and from another one: membership/moving.py
    "moves",
    metadata,
    Column("identity_sha256", Text, primary_key=True),  # of the other one
    Column("direction", Text, nullable=False),  # "to", "from", "cancelled"
    Column("coordinator_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("authority_epoch", BigInteger, nullable=False),  # that was in force then
    Column("ahead_at", Double),  # a node has shown that the other one has published since; null: none yet
)

sites = Table(
    "sites",
    metadata,
    Column("site_id", Text, primary_key=True),
    Column("generation", BigInteger, nullable=False),  # seed 002: any change to a site or its entries
    Column("created_at", Double, nullable=False),
)

resources = Table(
    "resources",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Index("resources_by_revision", "revision"),
)

declared_places = Table(  # where the resources were written, as far as that is known: declared_places.py
    "declared_places",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("file", Text, nullable=False),
    Column("line", BigInteger, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("audit_id", Long, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),  # "done", or the code of a refusal
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("link", BigInteger),  # the transition that proves it; null: none yet
    Index("audit_by_action", "action", "at"),
    Index("audit_by_link", "link"),
)

# --- membership ----------------------------------------------------------------------------------------------------

_IS_BEHIND = text("published < generation")  # as heads.due asks it

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("site_id", Text, nullable=False),
    Column("certificate", LargeBinary, nullable=False),
    Column("certificate_sha256", Text, nullable=False, unique=True),
    Column("next_certificate", LargeBinary),
    Column("next_certificate_sha256", Text, unique=True),
    Column("direct_url", Text),
    Column("incarnation", Text, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("generation", BigInteger, nullable=False),  # the head that this node should get: rules K21
    Column("revoked_at", Double),
    Column("reason", Text),
    Column("draining_since", Double),
    Column("keeps", Text),  # of one that is draining: what it had, and goes on with (rules J30)
    Column("published", BigInteger, nullable=False, server_default="-1"),  # the generation of the head that is out
    Index("nodes_behind", "node_id", sqlite_where=_IS_BEHIND, postgresql_where=_IS_BEHIND),
)

allowlist = Table(
    "allowlist",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("site_id", Text, nullable=False),
    Column("certificate_sha256", Text),
    Column("added_at", Double, nullable=False),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("code", Text, nullable=False),  # "removed" or "revoked"
    Column("reason", Text, nullable=False),
    Column("at", Double, nullable=False),
)

retired_certificates = Table(  # a key that left the cluster does not come back under another name: rules P29
    "retired_certificates",
    metadata,
    Column("certificate_sha256", Text, primary_key=True),
    Column("node_id", Text, nullable=False),
    Column("code", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("jti", Text, primary_key=True),
    Column("site_id", Text, nullable=False),
    Column("node_id", Text),
    Column("issued_by", Text, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("revoked_at", Double),
    Column("used_at", Double),
    Column("used_by", Text),
    Column("used_certificate_sha256", Text),
    Column("uses", Integer, nullable=False, server_default="1"),  # how many nodes it is for
    Column("used", Integer, nullable=False, server_default="0"),
    Column("nodes", Text),  # of a token for several: the ids that it lets in beside the allowlist (tokens.py)
)

token_uses = Table(  # of tokens for several nodes
    "token_uses",
    metadata,
    Column("jti", Text, primary_key=True),
    Column("node_id", Text, primary_key=True),
    Column("certificate_sha256", Text, primary_key=True),
    Column("at", Double, nullable=False),
)

used_nonces = Table(
    "used_nonces",
    metadata,
    Column("nonce", Text, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
)

revocations = Table(
    "revocations",
    metadata,
    Column("category", Text, primary_key=True),  # a member of a head's `revocations`: format.md 5
    Column("value", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("reason", Text, nullable=False),
)

operators = Table(  # who may come in over TLS: protocol 2
    "operators",
    metadata,
    Column("name", Text, primary_key=True),
    Column("certificate", LargeBinary, nullable=False),
    Column("certificate_sha256", Text, nullable=False, unique=True),
    Column("expires_at", BigInteger, nullable=False),
    Column("added_by", Text, nullable=False),
    Column("added_at", Double, nullable=False),
    Column("role", Text, nullable=False, server_default="admin"),
)

# --- changes: what was applied, and how far each node is with it -----------------------------------------------------


def _index_of_few(name: str, column: str) -> Index:
    """Where nearly every row has nothing there: those that have something."""
    is_set = text(f"{column} IS NOT NULL")
    return Index(name, column, sqlite_where=is_set, postgresql_where=is_set)


changes = Table(
    "changes",
    metadata,
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),  # 41 is `c-41`
    Column("at", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("plan_hash", Text, nullable=False),
    Column("plan", Text, nullable=False),  # each resource before and after
    Column("based_on", Text, nullable=False),  # the state before: its name
    Column("groups", Text, nullable=False),  # by which policy which nodes go, and how far they are
    Column("immediately", Text, nullable=False),  # why it skips rings and bake, or nothing
    Column("allowed", Boolean, nullable=False),  # an operator let exactly this plan pass the guard
    Column("why", Text, nullable=False),  # why it stands or goes back, for people
    Column("reverts", BigInteger),
    Column("waits_for", BigInteger),
    Column("follows", Text, nullable=False),  # the changes that it comes after
    Column("superseded_by", BigInteger),
    Column("settled_at", Double),
    Column("revision", BigInteger, nullable=False),  # raised by every save: compare and swap
    Index("changes_by_end", "settled_at", "state"),
    Index("changes_by_state", "state", "change_id"),
    _index_of_few("changes_by_reverted", "reverts"),
    _index_of_few("changes_by_successor", "superseded_by"),
)

change_nodes = Table(  # who has no row, no change keeps from anything
    "change_nodes",
    metadata,
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),
    Column("node_id", Text, primary_key=True),
    Column("group", Integer, nullable=False),  # its place among the `groups` of the change
    Column("scopes", Text, nullable=False),
    Column("step", Text, nullable=False),
    Column("ring", Integer),
    Column("released_at", Double),
    Column("votes", Text, nullable=False),  # by scope
    Column("outcome", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("active_at", Double),
    Index("change_nodes_by_node", "node_id"),
)

change_events = Table(  # the timeline of a change
    "change_events",
    metadata,
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("what", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
)

change_approvals = Table(
    "change_approvals",
    metadata,
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),
    Column("operator", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("plan_hash", Text, nullable=False),
)

readiness = Table(  # since when members could have been seen: readiness.py
    "readiness",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("since", Double, nullable=False),
    Column("until", Double, nullable=False),
)

publishing_claims = Table(  # who publishes for whom at this moment: replicas/claims.py
    "publishing_claims",
    metadata,
    Column("coordinator_id", Text, primary_key=True),
    Column("word", Text, nullable=False),  # another one each time
    Column("node_ids", Text, nullable=False),  # JSON array
)

storage_reports = Table(  # how each store stands, and who keeps it up: storage/storage_records.py
    "storage_reports",
    metadata,
    Column("endpoint_id", Text, primary_key=True),
    Column("place", Text, primary_key=True),  # nothing, or whose directory it is
    Column("coordinator_id", Text, nullable=False),
    Column("word", Text, nullable=False),  # another one each time
    Column("at", Double, nullable=False),
    Column("body", Text, nullable=False),
)

# --- objects (rules H8) --------------------------------------------------------------------------------------------

objects = Table(
    "objects",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

pointers = Table(  # moved by compare and swap alone: rules H9, H12
    "pointers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("signature", Text, nullable=False),  # base64
    Column("signer", Text, nullable=False),  # the id of the key; who reads it believes its own key alone
)

transitions = Table(  # where each stands in the order; what proves it is the object that it names: history.py
    "transitions",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("transition", Text, nullable=False),
)

running_digests = Table(  # of the tables whose rows must not go back: running_digests.py
    "running_digests",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

uploads = Table(  # objects that an apply may name: kept while a Config does, or for a day
    "uploads",
    metadata,
    Column("object_key", Text, primary_key=True),
    Column("asked_at", Double, nullable=False),  # by who uploads, or finds that it need not
)

# --- what was signed -----------------------------------------------------------------------------------------------

documents = Table(
    "documents",
    metadata,
    Column("snapshot_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),  # a node id, or "*"
    Column("scope", Text, nullable=False),
    Column("authority_epoch", BigInteger, nullable=False),
    Column("config_version", BigInteger, nullable=False),
    Column("base_config_version", BigInteger),
    Column("content_hash", Text, nullable=False),
    Column("issued_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("published_at", Double, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("signatures", Text, nullable=False),
    Column("manifest", LargeBinary, nullable=False),
    Index("documents_by_scope", "subject", "scope", "kind", "base_config_version"),
    Index("documents_by_content", "scope", "content_hash"),
)

document_sections = Table(
    "document_sections",
    metadata,
    Column("snapshot_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("object_key", Text, nullable=False),
    Index("document_sections_by_object", "object_key"),
)

published = Table(  # one content under one version, for ever: the key is the compare-and-swap
    "published",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("authority_epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("config_version", BigInteger, primary_key=True, autoincrement=False),
    Column("content_hash", Text, nullable=False),
    Column("snapshot_id", Text, nullable=False),
    Column("published_at", Double, nullable=False),
    Column("is_candidate", Boolean, nullable=False, server_default=false()),  # announced as coming, and no more yet
    Index("published_by_document", "snapshot_id"),
)

scope_versions = Table(  # the last version of a scope whose documents many nodes may share: shared_documents.py
    "scope_versions",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("config_version", BigInteger, nullable=False),
)

heads = Table(
    "heads",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("authority_epoch", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("snapshot_id", Text, nullable=False),
    Column("refresh_after", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("listing", Text, nullable=False),
    Column("candidates", Text, nullable=False, server_default="{}"),  # what is coming, in the form of `listing`
    Index("heads_by_refresh", "refresh_after", "node_id"),
)

trust_bundles = Table(
    "trust_bundles",
    metadata,
    Column("config_version", BigInteger, primary_key=True, autoincrement=False),
    Column("authority_epoch", BigInteger, nullable=False),
    Column("snapshot_id", Text, nullable=False, unique=True),
    Column("expires_at", BigInteger, nullable=False),
)

recoveries = Table(
    "recoveries",
    metadata,
    Column("snapshot_id", Text, primary_key=True),
    Column("node_id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("from_config_version", BigInteger, nullable=False),
    Column("to_config_version", BigInteger, nullable=False),
    Column("to_content_hash", Text, nullable=False),
    Column("nonce", Text, nullable=False),
    UniqueConstraint("node_id", "scope", "nonce", name="one_use_of_a_nonce"),
)

# --- what nodes report (never configuration: rules S70) ------------------------------------------------------------

node_status = Table(
    "node_status",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("last_seen", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("incarnation", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("head_epoch", BigInteger, nullable=False),
    Column("head_generation", BigInteger, nullable=False),
    Column("head_grade", Text, nullable=False),
    Column("behind", Boolean, nullable=False),
    Column("recorded", Text, nullable=False),  # the highest mark ever reported for each scope: rules K41
    Column("acknowledged_event", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("features", Text),  # by which it is given what it is given; null: nothing was held back for any
)

standing_refusals = Table(  # what a node does not take, and runs instead: standing_refusals.py
    "standing_refusals",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("refused_epoch", BigInteger, nullable=False),
    Column("refused_version", BigInteger, nullable=False),
    Column("refused_hash", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("detail", Text, nullable=False),
    Column("running_epoch", BigInteger),
    Column("running_version", BigInteger),
    Column("running_hash", Text),
    Column("renewed_at", Double, nullable=False),
    Column("withheld", Text, nullable=False),
)

head_requests = Table(
    "head_requests",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("last_seen", Double, nullable=False),
)

heartbeat_history = Table(  # a ring of time slots: bounded by its key
    "heartbeat_history",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("head_generation", BigInteger, nullable=False),
    Column("head_grade", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("incarnation", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("received_at", Double, nullable=False),
    Column("body", Text, nullable=False),
    Index("events_by_time", "received_at"),
)
