"""Encoders on an embedding server with OpenAI's /v1/embeddings API, such as TEI, infinity and vLLM."""
