"""What several verbs share: their base class, context, inputs, and fields in common."""
