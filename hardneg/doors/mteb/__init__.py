"""mteb's retrieval tasks, searched by hardneg's own encoders and indexes; the only folder that knows mteb."""
