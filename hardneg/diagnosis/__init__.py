"""Why a training did not help, or made things worse: checks of a finished run."""
