"""What both command lines share: foreign text made safe, durations, waiting for a daemon that starts."""
