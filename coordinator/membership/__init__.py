"""Who belongs to the cluster: join, revocation, operators, replicas, pinned certificates."""
