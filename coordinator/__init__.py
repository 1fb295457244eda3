"""What is decided: who belongs to the cluster, what is declared, which node may hold which part of it.

Decisions are pure (join, tokens, revocation, resources, plans, views, fleet): state in, decision out. Acts stand at the
edge (database, membership, declarations, documents, heartbeats): each public operation there is one transaction.
"""
