"""A node of the role storage_config keeps what coordinators publish, and serves it to nodes."""
