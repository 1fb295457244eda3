"""What lies on the disk, one kind of record a module, and the environment that holds it."""
