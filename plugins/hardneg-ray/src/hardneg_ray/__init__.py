"""The engine `ray`, which runs the blocks of stages on a Ray cluster."""
