"""The exact indexes against the kit that authors of plugins use."""

import numpy as np
import pytest
from encoded_forms import drawn_documents, drawn_queries, write_encoded

from hardneg.indexes.exact import ExactOptions, ExactSearcher, Flat
from hardneg.indexes.lucene import Bm25
from hardneg.records import PluginSetting
from hardneg.registry import configure, plugin_names
from hardneg.runtime import Silent
from hardneg.testing import IndexTests


class TestFlat(IndexTests):
    plugin = Flat()


@pytest.mark.slow
@pytest.mark.usefixtures("started_java")
class TestBm25(IndexTests):
    plugin = Bm25(k1=1.2)


TOKENS = [PluginSetting("multi-vector")]
BACKENDS = [Flat(), *(configure("indexes", each) for each in TOKENS if each.name in plugin_names("indexes"))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_options_change_no_result(tmp_path, backend):
    documents = drawn_documents(backend.input, 60, 4, exact=True)
    backend.build(write_encoded(tmp_path / "encoded", documents), tmp_path / "index", Silent())
    searcher = backend.open(tmp_path / "index", lambda doc_ids: np.empty(0, np.int64))
    assert isinstance(searcher, ExactSearcher)
    options = ExactOptions(corpus_block=7, query_block=2, device="cpu", resident=1 << 20)
    queries = drawn_queries(backend.input, documents, exact=True)
    plain, tuned = searcher.search(queries, 5), searcher.using(options, Silent()).search(queries, 5)
    assert np.array_equal(plain.rows, tuned.rows)
    assert np.array_equal(plain.scores, tuned.scores)
