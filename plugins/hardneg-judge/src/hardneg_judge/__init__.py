"""Judges of mined negatives: rerankers, and language models behind a server that speaks OpenAI's chat interface."""
