"""Inputs of an analysis that stand in a test."""

from hardneg.analysis.base import Files


class Memory(Files):
    """Runs and judgements as they are; what else is asked for is that of no files."""

    def __init__(self, analysis, runs, qrels=None, **more):
        super().__init__({path: name for path, name, _ in analysis.references()}, **more)
        object.__setattr__(self, "runs_by_name", runs)
        object.__setattr__(self, "given", qrels or {})

    def run(self, path):
        return self.runs_by_name[self.named[path]]

    def qrels(self):
        return self.given
