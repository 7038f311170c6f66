"""Judges of mined negatives: rerankers, and language models on a server with OpenAI's chat API."""
