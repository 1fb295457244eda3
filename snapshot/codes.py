"""Every code that a program gives out: what it means, and what a person does about it. Pure data, one row a code.

    explain(code, *areas)   the row, of the first of the areas that has the code
    CATALOGUE               all rows, by area

One word may be a code in several areas and mean something else in each: `revoked` is a key's, a node's, or a service's.
Commands, the pages and the texts of errors read these rows and have none of their own. Tests hold that each code of
an enumeration and each error of a listener has a row, and that no row is of a code that nothing gives out.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Area(StrEnum):
    """Who gives the code out, and on what occasion."""

    DOCUMENT = "document"  # a document was refused: the verdicts of the twelve steps (format.md 7)
    NODES_OWN = (
        "nodes_own"  # a document was refused by a bound of the node's own, or by a service's validator (rules X26)
    )
    STATE = "state"  # why a node is in its state (rules A2..A9)
    GATE = "gate"  # what the gate answers, where not the state's cause stands there (protocol.md 4)
    JOIN = "join"  # why a join did not succeed, as far as the node says so: the coordinator is in REQUEST
    STORE = "store"  # the node's store refuses
    FILES = "files"  # the files cannot be laid out
    SOURCE = "source"  # a coordinator, a mirror or a peer could not be asked
    REQUEST = "request"  # the coordinator refuses. A peer is told the code alone (rules X20)
    LISTENER = "listener"  # errors of the servers themselves, whichever listens
    ALARM = "alarm"  # what a node says that it holds is not what the coordinator has on record


class Explanation(NamedTuple):
    """Two sentences, or more."""

    meaning: str
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.meaning} {self.remedy}"

    @property
    def clause(self) -> str:
        """The remedy as the end of somebody else's sentence."""
        return self.remedy[:1].lower() + self.remedy[1:].removesuffix(".")


Table = Mapping[str, Explanation]

_DOCUMENT: Table = {
    "too_large": Explanation(
        "A part of the document is, or says that it is, larger than the limits allow.",
        "Split the section, or raise section_bytes or content_bytes on both sides if such content is meant.",
    ),
    "bad_container": Explanation(
        "The file is cut off, damaged, or no Holdfast document.",
        "Fetch it again, from another source; if it is the same there, publish it anew.",
    ),
    "bad_envelope": Explanation(
        "The envelope is not canonical, has a member too many, too few or out of form, or is of another kind.",
        "Ask for the kind that the document is; otherwise it was made by a faulty signer: publish it anew.",
    ),
    "unsupported_schema": Explanation(
        "The document is of a later format than this program reads.", "Upgrade Holdfast on this node."
    ),
    "wrong_cluster": Explanation(
        "The document belongs to another cluster.", "Take the document that this node's own coordinator publishes."
    ),
    "wrong_node": Explanation(
        "The document is for another node, or for roles that this node does not have.",
        "Take the document made for this node; `holdfast status` shows its name and roles.",
    ),
    "unknown_scope": Explanation(
        "The document is of a scope type that this program does not know.", "Upgrade Holdfast on this node."
    ),
    "unknown_key": Explanation(
        "No listed signer is in this node's trust bundle.",
        "Fetch the next trust bundle (`/v1/trust`, or import it from a file), then try again.",
    ),
    "key_expired": Explanation(
        "The signer's key is not valid at this time.",
        "Check this node's clock; otherwise rotate the key (`holdfastctl rotate`) and publish anew.",
    ),
    "key_revoked": Explanation(
        "The signer's key has been revoked.", "Publish the document anew, signed by a key that is trusted."
    ),
    "key_not_for_scope": Explanation(
        "The signer's key may not sign documents of this scope type.",
        "Sign with a key for this scope type; trust bundles and recoveries need the root keys.",
    ),
    "algorithm_mismatch": Explanation(
        "The envelope names another algorithm than the key's own.", "Publish the document anew with a sound signer."
    ),
    "trust_bundle_too_old": Explanation(
        "This node's trust bundle has expired, or is older than the document asks for.",
        "Fetch or import the next trust bundles in order, then try again.",
    ),
    "bad_signature": Explanation(
        "No signature by a trusted, listed signer verifies: the document was changed, or never signed by it.",
        "Fetch it again, from another source; if it is the same there, publish it anew.",
    ),
    "threshold_not_met": Explanation(
        "Fewer signatures count than the trust bundle asks for.", "Have the missing keys sign, then publish anew."
    ),
    "content_mismatch": Explanation(
        "The content is not what the envelope signs.",
        "Fetch it again, from another source; if it is the same there, publish it anew.",
    ),
    "bad_validity": Explanation("The document's times contradict each other.", "Publish the document anew."),
    "issued_in_future": Explanation(
        "The document was issued later than now.",
        "Check the clock of this node and that of the coordinator; otherwise publish the document anew.",
    ),
    "not_yet_valid": Explanation(
        "The document's time has not come.", "Wait until valid_from: a snapshot that was fetched is kept until then."
    ),
    "expired": Explanation(
        "The document's time is over.",
        "Check the clock of this node and that of the coordinator; otherwise publish the document anew.",
    ),
    "stale_epoch": Explanation(
        "The document is of an earlier authority epoch than this node has accepted.",
        "Ask who still signs in the old epoch; publish in the present one.",
    ),
    "epoch_ahead": Explanation(
        "The document is of a later authority epoch than the trust bundle announces.",
        "Fetch the trust bundle that announces it; if there is none, a config key is being misused: revoke it.",
    ),
    "epoch_needs_snapshot": Explanation(
        "An increment cannot change the epoch.", "Fetch the full snapshot of the scope."
    ),
    "version_conflict": Explanation(
        "Two contents were signed under one version. One of them is not the coordinator's, or there are two.",
        "Treat it as an incident: compare both documents, find who signed, raise the epoch.",
    ),
    "rollback": Explanation(
        "The document is older than what this node has accepted.",
        "Take the present version; to go back on purpose, make a recovery (`holdfastctl recover`).",
    ),
    "base_mismatch": Explanation(
        "The document changes another version than the one that is active here.",
        "Fetch the full snapshot; for a trust bundle, all the bundles between, in order.",
    ),
    "role_not_allowed": Explanation(
        "No role of this node may hold this.",
        "Assign the role to the node, or take the scope from its head. By file: its head and node_runtime come first.",
    ),
    "organization_not_allowed": Explanation(
        "The document is for an organization that this node does not serve.", "Assign the organization to the node."
    ),
    "bad_content": Explanation(
        "A section or the manifest is not canonical, not in its form, beyond a limit, or grants what nothing may.",
        "Correct the declared resource that `where` names, and publish anew.",
    ),
    "patch_failed": Explanation(
        "A patch does not apply to the section that is active here.", "Fetch the full snapshot of the scope."
    ),
    "result_mismatch": Explanation(
        "The increment leads to another content than was signed.", "Fetch the full snapshot of the scope."
    ),
    "unrelated_organization": Explanation(
        "A section holds data of an organization that the document is not for.",
        "Correct the resource's organization_id, and publish anew.",
    ),
    "raw_secret": Explanation(
        "A section holds a secret itself.",
        'Replace it by {"secret_ref": "<resolver>:<path>"}, publish anew, and change the secret: it has travelled.',
    ),
    "verifier_fault": Explanation(
        "The verifier itself failed on this document, which is a bug.", "Keep the file and report it; nothing changed."
    ),
}

_NODES_OWN: Table = {
    "valid_from_too_far": Explanation(
        "Its valid_from is more than seven days ahead.",
        "It is asked for again, seldom, and kept when it is near. If nobody meant that, see who has the key that "
        "signed it: see Revoke in operating.md.",
    ),
    "too_many_wait": Explanation(
        "As much waits for its valid_from as this node keeps.",
        "It is asked for again, seldom. Very many such documents are a sign that somebody else has a config key: "
        "see Revoke in operating.md.",
    ),
    "blast_radius": Explanation(
        "The change is beyond what a service of this node says that it can take: [[service]] limits in agent.toml.",
        "Make the change smaller, or in steps; raise the limit where the service can take more. "
        "An operator who lets the plan pass lifts removed_percent alone.",
    ),
    "quarantined": Explanation(
        "This content has been active on this node, failed its probation, and the node has gone back by itself.",
        "holdfast quarantine list says which check said no. Publish other content; or, once what it failed for is "
        "mended: holdfast quarantine clear SCOPE.",
    ),
    "validator_refused": Explanation(
        "A service's own validator did not accept the candidate.", "`holdfast explain SCOPE` shows what it said."
    ),
}

_STATE: Table = {
    "not_enrolled": Explanation(
        "This node belongs to no cluster yet.", "Get a token (holdfastctl tokens) and run holdfast join."
    ),
    "not_configured": Explanation(
        "agent.toml names no cluster yet.",
        "Run holdfast join FILE, with a file of holdfastctl allow add; or fill in [node] and [coordinator].",
    ),
    "joining": Explanation("It is being admitted.", "holdfast status --watch shows when it is."),
    "no_bootstrap": Explanation("It is a member and waits for its first configuration.", "See holdfastctl nodes."),
    "no_head": Explanation(
        "It is a member and waits for its first head, which says what it is to hold.", "See holdfastctl nodes."
    ),
    "token_of_another_cluster": Explanation("The token is of another cluster.", "Get one of this node's."),
    "scope_expired": Explanation(
        "A scope that the node is to hold has expired.",
        "Bring the coordinator back. If it is there, a newer version was refused, or none could be published: see "
        "what is said of the scope here, and holdfastctl fleet.",
    ),
    "no_degraded_policy": Explanation(
        "The head has expired and no policy allows going on.", "Bring the coordinator back."
    ),
    "degraded_limit": Explanation(
        "The time that the policy gives without a coordinator is over.", "Bring the coordinator back."
    ),
    "unconfirmed_start": Explanation(
        "No coordinator was reached since the start, and the policy asks for that.", "Bring the coordinator back."
    ),
    "clock_regressed": Explanation("The clock is behind what signed documents prove.", "Set it right."),
    "revoked": Explanation(
        "This node was revoked.", "Once it is readmitted: holdfast store reset-identity, then holdfast join."
    ),
    "node_behind": Explanation("The coordinator has recorded more than this node holds.", "It is fetching it again."),
    "store_regressed": Explanation("The store was restored from an old backup.", "What is missing is fetched again."),
    "running_on_previous": Explanation(
        "The active version was damaged, the one before serves.", "It is fetched again."
    ),
    "scope_missing": Explanation(
        "A scope that the head lists has not arrived yet.", "holdfast explain SCOPE names what was refused."
    ),
    "version_gap": Explanation("An increment did not fit.", "The full document is being fetched."),
    "head_expired": Explanation(
        "No coordinator confirms the configuration any more.",
        "The policy says what goes on: bring the coordinator back in time.",
    ),
}

_GATE: Table = {
    "ok": Explanation("It may be done, until the time in `until`.", "Ask again then."),
    "not_in_policy": Explanation(
        "The degraded_mode_policy does not allow it, or no active scope of this node names the resource.",
        "Declare it, or bring the coordinator back.",
    ),
    "not_seen_running": Explanation(
        "This node has not seen the service running while the head was fresh, or its unit is not active now.",
        "What never ran does not begin in an outage. Bring the coordinator back.",
    ),
    "signer_revoked": Explanation(
        "The signer of the scope was revoked.", "A full document by another signer is needed."
    ),
    "stale_epoch": Explanation(
        "The scope is of an earlier authority epoch.", "A full document of the present one is needed."
    ),
    "forbidden_in_degraded": Explanation(
        "No node ever does this by itself.", "It is for the coordinator and its operators."
    ),
    "roots_unconfirmed": Explanation(
        "The root keys are those of the first answer, and nobody has compared them, so nothing new begins.",
        "holdfast trust confirm, with what holdfastctl trust show says.",
    ),
    "not_pinned": Explanation(
        "The peer has shown a certificate that neither the peer_directory nor agent.toml names for it.",
        "Speak to it no further; holdfastctl nodes show NODE has the certificate that it was admitted with.",
    ),
    "unknown_action": Explanation("There is no such action.", "See POST /v1/may."),
    "revoked": Explanation("The service, peer, endpoint or role has been revoked.", "See holdfastctl explain."),
    "scope_expired": Explanation("The scope has expired.", "Bring the coordinator back, or import a renewed document."),
    "no_degraded_policy": _STATE["no_degraded_policy"],
    "degraded_limit": _STATE["degraded_limit"],
    "unconfirmed_start": _STATE["unconfirmed_start"],
}

_JOIN: Table = {
    "not_ready": Explanation(
        "The coordinator is not ready.", "Look at holdfastctl status there; it is tried again by itself."
    ),
    "too_many_requests": Explanation(
        "Too many joins came from this address, or documents were asked for at once.", "It is tried again by itself."
    ),
    "bad_answer": Explanation(
        "What answers there is no coordinator, or one of another version.", "Look at coordinator.join_urls."
    ),
    "not_granted": Explanation(
        "The coordinator's trust bundle is not one that this node believes.", "Look at [trust] in agent.toml."
    ),
    "roots_not_pinned": Explanation(
        "Nothing names the root keys that this node is to believe.",
        "Join with a token or a join file of this coordinator's (holdfastctl tokens create, allow add "
        "--join-file), which name them; or say --trust-on-first-use ([trust] trust_on_first_use), and confirm them "
        "then.",
    ),
    "other_roots": Explanation(
        "Whoever answers is not the cluster of the token or of [trust] root_key_ids: nothing of it was taken.",
        "Find out who answers at coordinator.join_urls; if it is the right one, get a new token or join file.",
    ),
    "bad_token_file": Explanation(
        "The token's file is not one, or not the agent's alone.",
        "Put the token there as one line, for the agent's account alone (holdfast join does).",
    ),
    "bad_identity": Explanation(
        "Key and certificate do not go together.", "Look at the credential; else holdfast store reset-identity."
    ),
    "unusable_file": Explanation(
        "A file that agent.toml names cannot be used.", "Put it there, readable for the agent's account."
    ),
    "io": Explanation(
        "A file could not be read or written.", "Look at the disk and the kernel's log; it is tried again by itself."
    ),
}

_STORE: Table = {
    "bad_permissions": Explanation(
        "A file or directory of the store is open to others, another owner's, or a link.",
        "Give it to the agent's user alone (chown, chmod 0700 for directories, 0600 for files).",
    ),
    "bad_identifier": Explanation(
        "What was named is no id, so it never becomes a path.",
        "Use an id as format.md 1 has it: lower-case letters, digits, '.', '_' and '-'.",
    ),
    "store_locked": Explanation(
        "Another agent has the state directory.", "Stop the other agent, or give this one a state directory of its own."
    ),
    "store_format_newer": Explanation(
        "A later version of Holdfast wrote the store.",
        "Install the version of Holdfast that wrote it, or a newer one; nothing was changed.",
    ),
    "store_corrupt": Explanation(
        "Bytes of the store are not what they were.",
        "Restart the agent: it sets the damage aside and fetches what is missing.",
    ),
    "store_full": Explanation(
        "The store's map or its disk is full.",
        "Free space on the file system, or raise the map size; what is active stays active.",
    ),
    "store_io": Explanation("The disk said no.", "Look at the disk and the kernel's log; what is active stays active."),
    "probe_failed": Explanation(
        "The store could not be examined, for a cause outside of it.",
        "Start again; if it stays, reinstall the agent's package; the store was not touched.",
    ),
    "not_found": Explanation("Nothing of that name is held.", "List what is held, and ask for that."),
    "conflict": Explanation(
        "What is active is not what was expected.", "Read what is active now, and verify the document against it again."
    ),
    "not_durable": Explanation(
        "An activation was asked for without its bytes in the pending slot.",
        "Bring the document through a pending slot first.",
    ),
    "too_large": Explanation(
        "A value or a count is beyond its bound.", "Keep it within the bound that the message names."
    ),
}

_FILES: Table = {
    "unsafe_directory": Explanation(
        "A directory of the files is a link, another's, or open to others.",
        "Give it to the agent's account, writable by that alone, or name another `projection_directory`; what is "
        "no directory: move it away, it is made anew.",
    ),
    "not_ours": Explanation("Something else stands where the link belongs.", "Move it away, it is made anew."),
    "no_access_lists": Explanation(
        "`projection_access` is `scope`, and the file system keeps no POSIX ACLs.",
        "Name a `projection_directory` on tmpfs, ext4, xfs or btrfs, or another `projection_access`.",
    ),
    "files_full": Explanation(
        "`projection_bytes` is used up, or the file system; the former files stay.",
        "Free space there, or raise `projection_bytes`.",
    ),
    "files_io": Explanation("The disk said no; the former files stay.", "Look at the disk and the kernel's log."),
}

_SOURCE: Table = {
    "bad_endpoint": Explanation(
        "The address is no `https://host:port` that may be asked.",
        "Correct it: coordinator.urls, or where it is declared.",
    ),
    "connect_failed": Explanation(
        "No connection: the name is unknown, nobody listens, or a firewall is between.",
        "Look at name, port and network, and whether the coordinator runs.",
    ),
    "tls_failed": Explanation(
        "The handshake failed: the chain has expired, is for another name, or it is no TLS.",
        "Look at the server's certificate, its names and its dates, and at both clocks.",
    ),
    "unknown_ca": Explanation(
        "The server's chain ends at no CA that this node believes: of the signed list that it holds, or without one of "
        "`ca_file`.",
        "A node that was away while the CA was exchanged: bring it its newest documents as files (`holdfast import`); "
        "one that has not joined: compare coordinator.ca_file with the server's chain.",
    ),
    "peer_pin_mismatch": Explanation(
        "The peer shows another certificate than is pinned for it, or refuses ours.",
        "Find out who changed; a renewed certificate comes with the next `peer_directory`.",
    ),
    "untrusted_mirror": Explanation(
        "The mirror shows a certificate that is not believed of it: of none of the CAs that its `StorageEndpoint` (or "
        "its entry in agent.toml) names, or another one than is pinned.",
        "Compare with what it shows (`openssl s_client -connect HOST:PORT`), and declare that if it is right. With "
        "`system_roots`: the machine has to have the CAs (package ca-certificates).",
    ),
    "timed_out": Explanation(
        "No connection or no answer within the limit.",
        "The next source is asked by itself; where there is none: look at the network and the coordinator.",
    ),
    "too_slow": Explanation(
        "The transfer stood still, or dripped.",
        "The next source is asked by itself; where there is none: look at the network and the coordinator.",
    ),
    "too_large": Explanation("The answer is larger than what was asked for may be.", "Look at who answers there."),
    "truncated": Explanation(
        "The answer ended early.",
        "The next source is asked by itself; where there is none: look at the network and the coordinator.",
    ),
    "redirected": Explanation("The source redirects; that is never followed.", "Name the final address."),
    "encoded": Explanation("The answer is compressed, which was not asked for.", "Switch it off at the source."),
    "bad_answer": Explanation(
        "What came is no HTTP, or not of the form that was asked for.", "Look at who answers there."
    ),
    "refused": Explanation("The source says no; its status and code stand beside it.", "See the coordinator's codes."),
}

_REQUEST: Table = {
    "bad_proof": Explanation(
        "The join's signature, nonce, certificate or server does not fit; or no client certificate was shown.",
        "Try again. If it stays: something between node and coordinator ends TLS, or join_urls names another server.",
    ),
    "wrong_cluster": Explanation(
        "The node asks for another cluster than this one.", "Correct node.cluster_id, or the coordinator's URL."
    ),
    "revoked": Explanation(
        "The node has been revoked.",
        "If that was wrong: holdfastctl nodes readmit, then enrol the node anew with a new token.",
    ),
    "removed": Explanation(
        "The node has left the cluster: removed, or trimmed after a long silence.",
        "holdfastctl nodes readmit, then a new token.",
    ),
    "bad_token": Explanation(
        "The token is cut off, is not one of this cluster's, or is for another node.",
        "Make one for this node: holdfastctl tokens create --node NODE_ID.",
    ),
    "token_revoked": Explanation("The token was taken back.", "Make another one, if the node may still join."),
    "token_expired": Explanation("The token's time is over.", "Make another one, and use it in time."),
    "token_used": Explanation(
        "Another certificate has joined with this token.",
        "Find out which one: holdfastctl audit. If it was not yours, revoke that node; make another token.",
    ),
    "unauthorized_peer": Explanation(
        "The node is not on the allowlist, or shows another certificate than its entry fixes.",
        "If it may join: holdfastctl allow add NODE_ID.",
    ),
    "kind_mismatch": Explanation(
        "The node wants to join as another kind than it is allowed as.", "Correct node.kind, or the allowlist's entry."
    ),
    "identity_conflict": Explanation(
        "The node is a member with another certificate, or shows one that belongs to somebody else.",
        "Give each node a name of its own. A member whose disk was lost comes back with a token that is bound to "
        "it: holdfastctl tokens create --node NODE_ID.",
    ),
    "wrong_site": Explanation(
        "The token is for another site than the allowlist says.", "Make a token for the node, or correct its entry."
    ),
    "bad_request": Explanation(
        "The request is not of the form that the route takes.", "Correct what the message names."
    ),
    "not_found": Explanation(
        "There is nothing of that name, or it is not for who asks.",
        "List what there is (nodes, allow, tokens, revoke list), and ask for that.",
    ),
    "permission_denied": Explanation(
        "Who asks may not.",
        "Ask as root, as the service's own user, or as an operator who was added, in a role that may.",
    ),
    "local_only": Explanation(
        "This is not done over the network.", "Run it on the coordinator's machine, over its admin socket."
    ),
    "certificate_expired": Explanation(
        "The operator's certificate is past its end.",
        "Make a new one with holdfastctl operators key; on the machine, remove the old one and add it.",
    ),
    "conflict": Explanation(
        "What is there already does not go together with the request.",
        "Look at what the message names, then ask again.",
    ),
    "hash_mismatch": Explanation(
        "A stored value is not what its address says: the database was changed or is damaged.",
        "Stop, and restore the database from a backup; then raise the epoch.",
    ),
    "too_large": Explanation("A value is beyond its limit.", "Make it smaller, or raise the setting that is named."),
    "bad_key": Explanation(
        "A private key or a certificate cannot be used: its file is not there, is encrypted or damaged, or the two do "
        "not belong together; or it is no CA's. Rarely: the name of an object in the database is not in its form.",
        "Put right the file that the message names. Where it names none: this is a bug, or a hand in the database.",
    ),
    "already_initialised": Explanation("There is a cluster in this database.", "Use it, or name another database."),
    "no_state": Explanation("The database holds no cluster.", "holdfastctl init, or name the right database."),
    "database_missing": Explanation(
        "The keys of a cluster are on this machine, and its database is not: no empty one is made in its place.",
        'holdfastctl restore FILE puts a backup back. Without one: operating.md, "The database is gone".',
    ),
    "store_full": Explanation(
        "A disk is full: the database's, or the one that a backup goes to. Nothing is lost, and nothing half done.",
        "Free space there; what could not be written is taken again by itself, or when it is asked for again.",
    ),
    "timed_out": Explanation(
        "The machine was too busy to work out what was asked for. Nothing was decided, and nothing changed.",
        "Ask again; look at the machine's load if it stays.",
    ),
    "backup_failed": Explanation(
        "The backup could not be made, or not be restored; nothing of it was left.", "Correct what the message names."
    ),
    "backup_damaged": Explanation(
        "A backup is cut off, changed, or none: what it holds is not what its manifest says.", "Use another one."
    ),
    "stale_state": Explanation(
        "This replica works on a state that is no longer the latest one.",
        "Wait: it reloads by itself. If it stays, look at its log and at the database.",
    ),
    "untrusted_history": Explanation(
        "The signed history of the cluster's state does not verify: a link, its signature or a row that it proves was "
        "changed or is missing, or the seed is another cluster's. Nothing is changed or signed; nodes keep what they "
        "hold.",
        "holdfastctl audit verify names what differs; operating.md, 'The history', says what to do then.",
    ),
    "no_signer": Explanation(
        "This replica is without the config keys that nodes believe: it signs, admits and gives out nothing.",
        "Put them into its keys directory, then systemctl reload holdfast-coordinator; other replicas go on meanwhile.",
    ),
    "manifest_mismatch": Explanation(
        "While a coordinator asked another one for what the manifest's coordinators have, the manifest was another one "
        "for the two, or moved on. Nothing was adopted.",
        "Nothing: it is tried again by itself, within 15 seconds. If it stays, look at which database each works on.",
    ),
    "bad_share": Explanation(
        "The file is no share of a cluster's seed, was cut off or changed, or is sealed to another owner's key.",
        "Give the owner's own key and share; or take those of another owner: any one is enough.",
    ),
    "not_an_owner": Explanation(
        "Whoever sent the seed is no owner whom the manifest names, or has not signed with the key that it names.",
        "Give the share and the key of an owner: holdfastctl coordinators recover names whom the manifest has.",
    ),
    "wrong_seed": Explanation(
        "The cluster's history was signed with another seed than the one that came. Nothing was adopted.",
        "Look whether the share is of this cluster, and the database the right one; or take another owner's share.",
    ),
    "peers_ready": Explanation(
        "An owner's seed was refused, because another coordinator is ready: what is missing here comes from it.",
        "Wait for that, and look at `holdfastctl coordinators status`. If you know that none is ready: --force.",
    ),
    "peers_unknown": Explanation(
        "An owner's seed was refused, because nobody could say who the other coordinators are, or ask one of them.",
        "Put right what the message names, and repeat. If you know that none of them is ready: --force.",
    ),
    "recovery_mode": Explanation(
        "This coordinator lacks the seed, or the mesh key of the cluster's manifest, and so signs, admits and changes "
        "nothing; nodes go to the others. It asks the other coordinators for them, one after the other.",
        "Nothing, while another coordinator is ready: it is asked every 15 seconds. `holdfastctl coordinators status` "
        "says how that went. Without another one, put its own keys back from a backup, and restart.",
    ),
    "not_in_manifest": Explanation(
        "The manifest of the cluster does not name this coordinator, or with the certificate of another identity. It "
        "changes, signs and serves nothing; nodes go to the others.",
        "Stop it, if it was taken away. Otherwise put its identity.pem back, or holdfastctl coordinators pin --anew.",
    ),
    "clock_behind": Explanation(
        "What was signed last is dated later than this machine's clock says: nodes would refuse whatever came next.",
        "Set the clock right. If it is right, it was ahead before: holdfastctl epoch raise, or wait for that date.",
    ),
    "clock_jumped": Explanation(
        "The clock has leapt ahead by more than nodes tolerate; for ten minutes nothing is signed by it.",
        "Set the clock right. If it is right: restart the coordinator, or wait.",
    ),
    "ca_in_use": Explanation(
        "A CA of the coordinators would go, or would be shown, and a coordinator or members still need another one.",
        "`holdfastctl coordinators ca status` names them: wait for them, bring them their documents as files, or take "
        "them out; or say that you mean it: --despite-unconfirmed.",
    ),
    "concurrent_update": Explanation(
        "Another change came first; nothing of this one was done.", "Look at the plan again, and apply it again."
    ),
    "in_use": Explanation(
        "Another coordinator works on this database file.", "Stop it, or use PostgreSQL for several coordinators."
    ),
    "schema_too_new": Explanation(
        "The database was migrated by a later version.", "Install that version of the coordinator; nothing was changed."
    ),
    "moved": Explanation(
        "The cluster was exported from here to another coordinator. This one still answers check-ins, with what was "
        "published, renewed; it takes no change and admits nobody. `holdfastctl coordinators status` says where to.",
        "Ask the other coordinator. If that one was never started: holdfastctl export --cancel.",
    ),
    "export_failed": Explanation(
        "The export could not be made; nothing was changed, and no file was left.", "Correct what the message names."
    ),
    "export_damaged": Explanation(
        "A file is no export of a cluster, is cut off or was changed, or the history in it does not verify. Nothing of "
        "it was taken.",
        "Bring the file again; if it is the same there, holdfastctl export again on the coordinator that it is of.",
    ),
    "export_outdated": Explanation(
        "The export is more than a week old: it may have been cancelled since, and the cluster have gone on.",
        "Make a new one. If you know that nothing was changed since: --despite-age.",
    ),
    "wrong_recipient": Explanation(
        "The export is encrypted to the identity of another coordinator than the one on this machine, or to one that "
        "this machine had before.",
        "Export for this one: holdfastctl coordinators identity writes the certificate that --for takes.",
    ),
    "invalid_resources": Explanation(
        "Declared files are wrong; nothing was applied.", "Each problem names file, line, field and remedy."
    ),
    "invalid_settings": Explanation(
        "The configuration is wrong, or its settings are at odds.", "Correct what the message names."
    ),
    "unknown_site": Explanation("There is no such site.", "Declare the Site first, or leave site_id out."),
    "endpoint_in_use": Explanation(
        "A coordinator's endpoint would go, and members have not confirmed a node_bootstrap with one that stays.",
        "Declare the new endpoint beside the old one first, and wait for the members that are named, or remove "
        "them; or say that you mean it: `holdfastctl apply --drop-endpoints`.",
    ),
    "contradiction": Explanation("Two parts of what is asked for exclude each other.", "Drop one of them."),
    "not_draining": Explanation(
        "A member is removed only while it is draining; nothing was changed.",
        "holdfastctl nodes drain NODE_ID, and move what runs there; then remove it.",
    ),
    "has_dependants": Explanation(
        "What is declared names the node, or runs on no other; nothing was changed.",
        "Declare what is named elsewhere, or no more; then remove the node. By --force it takes root keys.",
    ),
    "too_much_change": Explanation(
        "The plan changes more of what nodes are given than a change usually does; nothing was applied.",
        "Look at what is named. If it is meant, `holdfastctl apply --allow PLAN_HASH` lets exactly this plan pass, and"
        " once.",
    ),
    "plan_differs": Explanation(
        "`--allow` names another plan than this one: the state or the files have changed since; nothing was applied.",
        "Look at the plan again, and name the one that is shown.",
    ),
    "expectation_failed": Explanation(
        "Nodes would be given what a declared Expectation says must not be; nothing was applied.",
        "Each problem names scope, place and nodes: correct what is declared, or the Expectation.",
    ),
}

_LISTENER: Table = {
    "unsupported_protocol": Explanation(
        "A head request names a version of the protocol that this coordinator does not serve. Nothing was noted.",
        "Install the same release on both, the coordinators first; the node asks the others meanwhile.",
    ),
    "both_automatic": Explanation(
        "The manual maps of two nodes both say automatic_refresh for each other.",
        "Take it away on one of them: one side of a pair is the one that is copied from.",
    ),
    "older": Explanation(
        "A newer head of that node lies at the storage node already.",
        "Nothing, if two coordinators were at it at once: the next look finds the newer one.",
    ),
    "no_shard": Explanation(
        "The storage node's `storage_directory` names no endpoint that it runs, or has expired.",
        "Declare a `StorageEndpoint` with this `node`; the node takes it by itself once it holds that.",
    ),
    "bad_range": Explanation(
        "The file has none of the bytes that the Range asks for.", "`Content-Range` has its size: ask within it."
    ),
    "bad_request": Explanation(
        "The request is malformed, or a member is out of form.", "Correct what the message names."
    ),
    "development": Explanation(
        "Plain files are served here (`holdfast dev`), and they are no node's configuration.",
        "Change the files that it serves, or ask a node's agent.",
    ),
    "expired": Explanation(
        "The scope's time is over; the headers name its last version.",
        "Bring the coordinator back, or import a renewed document; `?expired=allow` reads it where policy permits.",
    ),
    "forbidden": Explanation(
        "This caller may not ask this, or not here.", "Ask as root or as the agent's own account."
    ),
    "forbidden_origin": Explanation("A web page asks: there is an Origin header.", "Ask from a program."),
    "internal_error": Explanation("A fault of the program's own; the log has it.", "Report it with the log."),
    "method_not_allowed": Explanation("The path has other methods; `Allow` names them.", "Use one of them."),
    "misdirected_request": Explanation(
        "The Host header names another host.", "Use one of those that the message names."
    ),
    "not_enrolled": Explanation(
        "The node has pinned no root keys yet, so none can be confirmed.", "Let it join: holdfast join."
    ),
    "other_roots": Explanation(
        "The root keys that this node holds are not those that were named. Nothing was confirmed.",
        "Find out who answered its join: stop it, remove its state directory, join by a join file.",
    ),
    "not_found": Explanation("There is nothing at this path, or it is not for this caller.", "List what there is."),
    "not_listed": Explanation("The head does not list what was handed in.", "Import the head that lists it first."),
    "not_ready": Explanation("Nothing can be said at this moment.", "Ask again after `Retry-After`."),
    "coming": Explanation(
        "A relay of the site fetches the document itself at the moment.",
        "Ask again after Retry-After; agents do, for relay_wait_s, and then ask the coordinator.",
    ),
    "overloaded": Explanation(
        "More work than this listener takes at a time; the costly requests go first.", "As `not_ready`."
    ),
    "shutting_down": Explanation("The process is stopping.", "Ask again; another replica answers meanwhile."),
    "timed_out": Explanation(
        "Request or answer took longer than its limit.", "Ask again; look at load and disk if it stays."
    ),
    "too_large": Explanation(
        "The body is larger than the route takes.", "Make it smaller, or raise the limit that is named."
    ),
    "too_many_requests": Explanation(
        "More joins from one address, or reports or documents at once of one node, than are allowed.",
        "Ask again after `Retry-After`.",
    ),
    "unavailable": Explanation(
        "The coordinator cannot reach its database at this moment. Nothing was decided, and nothing is lost.",
        "Ask again after `Retry-After`; nodes do so by themselves. Look at the database if it stays.",
    ),
    "permission_denied": Explanation(
        "Only root and the service's own user are answered here.", "Use `sudo -u`, or root."
    ),
    "not_configured": _STATE["not_configured"],
}

_ALARM: Table = {
    "node_behind": Explanation(
        "The node was restored from an old backup: it is RECOVERING, and fetches all anew.",
        "Nothing; if nobody restored it, look at its disk.",
    ),
    "node_ahead": Explanation(
        "The node says that it holds more than is on record here, and does not prove it.",
        "Look at the node, and whether this database is the latest one.",
    ),
    "restored_backup": Explanation(
        "The node proves, by this cluster's own signature, that the database was restored from an old backup.",
        "Nothing is ready until the epoch is raised: holdfastctl epoch raise.",
    ),
    "conflict": Explanation(
        "One version, two contents.",
        "Treat it as an incident: compare both documents, find who signed, raise the epoch.",
    ),
}

CATALOGUE: Mapping[Area, Table] = {
    Area.DOCUMENT: _DOCUMENT,
    Area.NODES_OWN: _NODES_OWN,
    Area.STATE: _STATE,
    Area.GATE: _GATE,
    Area.JOIN: _JOIN,
    Area.STORE: _STORE,
    Area.FILES: _FILES,
    Area.SOURCE: _SOURCE,
    Area.REQUEST: _REQUEST,
    Area.LISTENER: _LISTENER,
    Area.ALARM: _ALARM,
}


def explain(code: str, *areas: Area) -> Explanation | None:
    """None for a code that none of the areas has: of a later version, or not ours."""
    return next((CATALOGUE[area][code] for area in areas if code in CATALOGUE[area]), None)
