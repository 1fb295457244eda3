"""What nodes say: heartbeats, read, judged, merged, recorded."""
