"""What every process has: progress, seeds, memory, processes that share the work, model servers."""
