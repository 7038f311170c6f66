"""Encoders behind an embedding server that speaks OpenAI's /v1/embeddings, such as TEI, infinity and vLLM."""
