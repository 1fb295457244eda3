"""What every room of the coordinator stands on: refusals with remedies, settings, clocks, threads."""
