"""Encode with models on a server that has OpenAI's /v1/embeddings API, such as TEI, infinity or vLLM."""
