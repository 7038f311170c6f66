"""Penalties on what texts are encoded into, added to a loss (`hardneg.protocols.Regularizer`)."""
