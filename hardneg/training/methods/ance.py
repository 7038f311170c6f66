"""The method of stage `train-refreshed`: as `train`, with the newest negatives at every step."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from hardneg.encoders.encoder import Encoder
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records import ArtifactError, TrainingError, UsageError
from hardneg.runtime import barrier, from_first, world
from hardneg.store import digest
from hardneg.training import checkpoint, examples, loss_terms, sources
from hardneg.training.batches import Batch, ahead
from hardneg.training.methods.dual_encoder import DualEncoderTraining
from hardneg.training.options import RefreshOptions, TrainOptions
from hardneg.training.refresh.folder import kept
from hardneg.training.refresh.provider import RefreshProvider


class AnceTraining(DualEncoderTraining):
    """Training on refreshed negatives.

    A published refresh is used from the next step whose batches are not drawn yet: one step later, as they are drawn
    one ahead. All batches of a step, in all processes, are of the same refresh.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 4.
    """

    def __init__(
        self,
        encoder: Encoder,
        data: examples.TrainingData,
        options: TrainOptions,
        refreshing: RefreshOptions,
        provider: RefreshProvider,
        terms: loss_terms.LossTerms = loss_terms.LossTerms(),  # noqa: B008
    ) -> None:
        """data: its negatives, if any, are trained on until the first refresh.

        Raises:
            UsageError: there are more parts of the queries than queries.
        """
        if (parts := refreshing.query_chunks) > (total := len(data.query_ids)):
            raise UsageError(f"refresh.query_chunks: {total} queries cannot be cut into {parts} parts: give fewer")
        super().__init__(encoder, replace(data, negatives=None), replace(options, negatives_per_query=0), terms)
        self._data, self._options, self._refreshing = data, options, refreshing
        self._provider, self._refreshes = provider, provider.refreshes
        self._all = self.examples
        self._first = None if data.negatives is None else data.examples(options)
        self._used: tuple[int, int] | None = None
        self._uses: dict[int, checkpoint.Record] = {}
        self._change: checkpoint.Record = {}
        self._seen, self._began, self._waited = -1, 0.0, 0.0

    @property
    def refresh_interval(self) -> int | None:
        return self._provider.refresh_interval

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._all.skipped

    @property
    def waited(self) -> float:
        """The share of this process's time spent waiting for negatives."""
        return self._waited / max(time.monotonic() - self._began, 1e-9)

    def __len__(self) -> int:
        if not self._options.iterate_negatives:
            return len(self._all)
        return len(self._all) * max(1, self._refreshing.negatives // max(1, self._options.negatives_per_query))

    def digest(self) -> str:
        first = None if self._first is None else self._first.digest()
        return digest([self._terms.named_with(self._all.digest()), self._refreshing.identity(), first])

    def prepare(self, step: int) -> None:
        """Refresh the negatives where they are due, and wait for them where there are none.

        Raises:
            TrainingError: there are none.
        """
        began = time.monotonic()
        self._began = self._began or began
        self._provider.prepare(step)
        barrier()
        self._waited += time.monotonic() - began
        self._take_up(step)

    def batches(self, starts: range, size: int) -> Iterator[Batch]:
        def planned() -> Iterator[tuple[int, sources.AnyExamples]]:
            per_step = self._options.batch_size * self._options.accumulate
            for start in starts:
                step, within = divmod(start, per_step)
                if not within:
                    self._take_up(step)
                    if self._used is not None:
                        number, mined = self._used
                        self._uses[step] = {"refresh": number, "lag": step - mined, **self._change}
                        self._change = {}
                yield start, self.examples

        return ahead(lambda planned: self.make(planned[1].draw(planned[0], size)), planned())

    def log_metrics(self, step: int) -> checkpoint.Record:
        """`refresh`, its number, and `lag`, the steps between the model that mined and the one that was trained.

        At the first step of a refresh also `kept`: the share of a query's negatives that the last refresh had too.
        """
        return self._uses.pop(step - 1, {})

    def _take_up(self, step: int) -> None:
        """Switch to the newest negatives, in all processes at the same step."""
        newer = from_first(self._newer(step) if world().first else None)
        if newer is not None:
            self._used = newer
            if not world().first:
                self.examples = self._mined(newer[0])
        elif self._used is None:
            if self._first is None:
                gone = f"{self._refreshes.folder}: there are no negatives"
                raise TrainingError(f"{gone}: remove its parent to start afresh")
            self.examples = self._first

    def _newer(self, step: int) -> tuple[int, int] | None:
        """Open newer negatives in the first process; return their number and step, None if there are none."""
        newest = self._provider.newest(step)
        if newest is None or newest.step <= self._seen:
            return None
        number = newest.number
        try:
            self.examples = self._mined(number)
        except (ArtifactError, TrainingError) as error:
            self._provider.refuse(newest, error)
            if self._used is None and self._first is None:
                raise
            self._seen = self._seen if isinstance(error, ArtifactError) else newest.step
            return None
        self._seen = newest.step
        with suppress(ArtifactError):  # a refresh that is gone
            before = self._read(number - 1) if number else self._data.negatives
            share = None if before is None else kept(self._read(number), before)
            self._change = {} if share is None else {"kept": round(share, 4)}
        return number, newest.step

    def _read(self, number: int) -> NegativesFile:
        """Read a file whole: it may be removed or truncated while it is trained on."""
        return read_negatives(self._refreshes.negatives(number), whole=True)

    def _mined(self, number: int) -> examples.Examples:
        return replace(self._data, negatives=self._read(number)).examples(self._options)
