"""The built-in encoders: dense, static and multi-vector; and adapters."""
