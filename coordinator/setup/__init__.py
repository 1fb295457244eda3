"""Before and beside the running daemon: configuration, a first cluster, replicas, backup."""
