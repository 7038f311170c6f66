"""What this machine does in a second, measured by the code that recipes run."""
