"""The built-in encoders: dense, static, sparse and multi-vector; and adapters."""
