"""What the coordinators over one database leave to each other."""
