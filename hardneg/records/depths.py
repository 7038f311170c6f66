"""How many documents of a list are taken by default: an option's `depth` is one of these, or a number of its own."""

LIST_DEPTH = 100
"""Of a list that is kept: searched, reranked, fused or compared; ANCE's of BM25 (Xiong et al., ICLR 2021)."""
TOP_DEPTH = 200
"""That negatives are chosen from, as ADORE (Zhan et al., SIGIR 2021), SimANS and ANCE-Tele choose them."""
MINED_DEPTH = 210
"""Of lists to mine from: ten more than `TOP_DEPTH`, as positives may be among them."""
RETURN_DEPTH = 20
"""Among which the passage of a written query is to be."""
SCORED_DEPTH = 50
"""That are tested by a second model's scores, for negatives and for labels."""
