"""The engine `ray`: blocks of stages, made by the processes of a Ray cluster."""
