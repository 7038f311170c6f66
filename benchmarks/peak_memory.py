"""Peak resident memory of the steps that stream, for a small and a large corpus: it should be the same.

    python benchmarks/peak_memory.py [PART ...]

Each measurement is a process of its own. PART is one of `PARTS`; all of them are measured by default.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hardneg.records import Document
from hardneg.runtime import Silent

SIZES = (20_000, 200_000)
DIMENSION = 384
QUERIES = 500
K = 100


def prepare_search(folder: Path, count: int) -> None:
    """Writes a flat index folder of random vectors."""
    import numpy as np

    from hardneg.formats.vectors import FlatWriter

    generator = np.random.default_rng(0)
    with FlatWriter(folder, DIMENSION, count) as writer:
        for _number, start in enumerate(range(0, count, 4096)):
            rows = min(4096, count - start)
            writer.write(generator.standard_normal((rows, DIMENSION), dtype=np.float32))
        writer.write_doc_ids(str(row) for row in range(count))
        writer.close()


def measure_search(folder: Path) -> None:
    """Searches the folder exactly with random queries."""
    import numpy as np

    from hardneg.indexes.exact import Flat

    queries = np.random.default_rng(1).standard_normal((QUERIES, DIMENSION), dtype=np.float32)
    Flat().open(folder).search(queries, K)


def prepare_encode(folder: Path, count: int) -> None:
    """Writes a corpus of short synthetic passages, and a tiny random encoder."""
    from hardneg.formats.corpus import write_corpus

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from tiny import tiny_encoder

    tiny_encoder(folder / "encoder")
    documents = (Document(f"d{row}", f"passage {row} speaks of item {row * 7919 % 1000003} ") for row in range(count))
    write_corpus(documents, folder, Silent())


def measure_encode(folder: Path) -> None:
    """Encodes the corpus into a flat index folder."""
    from hardneg.encoders.open.resolved import load_learner
    from hardneg.encoders.protocol import EncodeOptions
    from hardneg.encoders.spec import ModelSpec
    from hardneg.encoders.stream import write_index
    from hardneg.formats.corpus import Corpus

    corpus = Corpus.open(folder)
    encoder = load_learner(ModelSpec(str(folder / "encoder"), document_length=32), "cpu")
    write_index([encoder], corpus, folder / "index", EncodeOptions(), Silent())


PARTS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], None]]] = {
    "encode": (prepare_encode, measure_encode),
    "search": (prepare_search, measure_search),
}


def peak_mib() -> float:
    """The largest resident size that this process has had so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _in_new_process(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measure(part: str) -> list[float]:
    """Peak MiB of one part for each of `SIZES`, each in a fresh process."""
    peaks = []
    for count in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            _in_new_process("--prepare", folder, str(count), part)
            peaks.append(float(_in_new_process("--measure", folder, part)))
            print(f"{part}: {count:>9,} passages  {peaks[-1]:8.1f} MiB", flush=True)
    return peaks


def main() -> None:
    """Measures the parts named on the command line, or does one step of a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--prepare", nargs=2, metavar=("FOLDER", "COUNT"), help=argparse.SUPPRESS)
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for part in arguments.parts or list(PARTS):
        if part not in PARTS:
            parser.error(f"unknown part {part}: choose from {', '.join(PARTS)}")
        prepare, work = PARTS[part]
        if arguments.prepare:
            prepare(Path(arguments.prepare[0]), int(arguments.prepare[1]))
        elif arguments.measure:
            work(Path(arguments.measure))
            print(peak_mib())
        else:
            small, large = measure(part)
            print(f"{part}: {large / small:.3f} times the memory for {SIZES[1] / SIZES[0]:g} times the passages")


if __name__ == "__main__":
    main()
