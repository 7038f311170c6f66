"""Adapters: few weights beside those of a transformer, by peft."""
