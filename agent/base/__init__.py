"""What every room of the agent stands on: clocks, threads, the generation counter, programs that it starts."""
