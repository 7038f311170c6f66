"""Documents cut into passages: by headings first, then at the ends of sentences."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hardneg.datasets.document_files import Block, Text
from hardneg.formats.sentences import sentences, word_spans


class Passage(NamedTuple):
    """A piece of a document: the line where it begins, its headings in one line, and its text."""

    line: int
    title: str
    text: str


class _Piece(NamedTuple):
    """A sentence, or a part of a long one; `first`: it begins a paragraph. words: how many it has."""

    line: int
    text: str
    first: bool
    words: int


class _Section(NamedTuple):
    """What stands under a heading, with that and the headings above it in one line."""

    title: str
    heading: list[_Piece]
    pieces: list[_Piece]


@dataclass(frozen=True)
class Cutting:
    """How documents are cut: the most words of a passage, the fewest, and those that two neighbours share at most.

    Words are those of `word_spans`; a section with fewer than `least` is joined with the next one.
    """

    most: int
    least: int
    overlap: int

    def passages(self, text: Text) -> Iterator[Passage]:
        """The passages of a document in their order, each within one section, and near `most` words long."""
        if text.whole:
            yield from (Passage(block.line, text.title, block.text) for block in text.blocks)
            return
        blank = "\n\n"
        for title, pieces in self._sections(text):
            for block in self._packed(pieces):
                words = block[0].text + "".join(f"{blank if each.first else ' '}{each.text}" for each in block[1:])
                yield Passage(block[0].line, title, words)

    def _sections(self, text: Text) -> Iterator[tuple[str, list[_Piece]]]:
        """What stands under each heading, with the headings above it; short sections go with the next one's text."""
        sections: list[_Section] = []
        path: list[tuple[int, str]] = []
        for block in text.blocks:
            if block.level:
                path = [*((level, words) for level, words in path if level < block.level), (block.level, block.text)]
            title = ": ".join([text.title] * bool(text.title) + [words for _, words in path])
            pieces, before = list(self._pieces(block)), sections[-1].pieces if sections else []
            if block.level and (not before or _words(before) >= self.least):
                sections.append(_Section(title, pieces, []))
                continue
            if not sections:
                sections.append(_Section(title, [], []))
            sections[-1].pieces.extend(pieces)  # of a heading too, where the section before is short: its title stays
        kept = [section for section in sections if section.pieces]
        if len(kept) > 1 and _words(kept[-1].pieces) < self.least:
            last = kept.pop()
            kept[-1].pieces.extend(last.heading + last.pieces)
        yield from ((section.title, section.pieces) for section in kept)

    def _pieces(self, block: Block) -> Iterator[_Piece]:
        line, counted, end = block.line, 0, 0
        for number, sentence in enumerate(sentences(block.text)):
            at = block.text.index(sentence, end)
            end, words = at + len(sentence), word_spans(sentence)
            for begin in range(0, len(words), self.most):
                part = words[begin : begin + self.most]
                start, stop = at + part[0][0], at + part[-1][1]
                line, counted = line + block.lines * block.text.count("\n", counted, start), start
                text = sentence if len(words) <= self.most else " ".join(block.text[start:stop].split())
                yield _Piece(line, text, not number and not begin, len(part))

    def _packed(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Pieces in runs of at most `most` words; a last run that is short goes with the one before."""
        runs: list[list[_Piece]] = [[]]
        shared: list[_Piece] = []
        for piece in pieces:
            if runs[-1] and _words(runs[-1]) + piece.words > self.most:
                shared = self._shared(runs[-1], piece)
                runs.append([*shared])
            runs[-1].append(piece)
        if len(runs) > 1 and _words(runs[-1]) < self.least:
            last = runs.pop()
            runs[-1] += last[len(shared) :]
        yield from runs

    def _shared(self, before: Sequence[_Piece], piece: _Piece) -> list[_Piece]:
        """The last pieces of a passage that the next one begins with."""
        shared: list[_Piece] = []
        for each in reversed(before):
            if _words(shared) + each.words > self.overlap or _words(shared) + each.words + piece.words > self.most:
                break
            shared.insert(0, each)
        return shared


def _words(pieces: Iterable[_Piece]) -> int:
    return sum(piece.words for piece in pieces)
