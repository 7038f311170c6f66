"""Padding that is taken out and put back, from transformers."""

from transformers.modeling_flash_attention_utils import _pad_input as pad_input, _unpad_input as unpad_input

__all__ = ["pad_input", "unpad_input"]
