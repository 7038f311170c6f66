"""DPR (Karpukhin et al., EMNLP 2020), on questions with short answers."""

from pathlib import Path

from hardneg.plugin import recipe_tree
from hardneg_papers.book import DemoOrPaper, Tree


def dpr_nq(preset: DemoOrPaper = "demo") -> Tree:
    """DPR: twin encoders for questions with short answers, their gold passages and BM25's negatives; and BM25 + DPR.

      hardneg recipe run dpr-nq  demo: docstrings and the names they tell, all-MiniLM-L6-v2; minutes
      hardneg recipe run dpr-nq --set dataset=beir:path/to/folder       a BEIR folder whose queries have `answers`
      hardneg data fetch nq  brings DPR's files into data/nq (7.3 GB), which the preset paper reads
      hardneg recipe plan dpr-nq --preset paper             Wikipedia's 21 million passages, BERT-base; needs GPUs

    DPR's files are read by hardneg-datasets: `--set dataset=dpr:path/to/folder`.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering, EMNLP 2020, sections 3 to 5.
    To expect from the paper preset on NQ's test questions, answer@20 and answer@100: BM25 .591 and .737, DPR .784 and
    .854, BM25+DPR .766 and .838 (Table 2 of Xiong et al., ANCE, ICLR 2021; not run by us).
    """
    return recipe_tree(str(Path(__file__).with_name("dpr-nq.yaml")), preset)
