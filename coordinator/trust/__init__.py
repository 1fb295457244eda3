"""Root keys' work: bundles, ceremonies, rotation, recoveries, a database restored from an old backup."""
