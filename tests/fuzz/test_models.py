"""Any folder of any kind of model encodes, or raises an error of one line."""

import json
import shutil

import pytest
from fuzz.fuzzing import fuzzed, mangled, read_or_one_line, values
from hypothesis import given, strategies as st
from tiny import BY_FAMILY, tiny_encoder, tiny_model2vec, tiny_sparse_encoder, tiny_static

from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError, PluginSetting

TEXTS = ["a river, old", "", "x " * 600, "! ,", "\0 \u202e 💥"]
CHEAP = EncodeOptions(precision="fp32", tokens_per_batch=4096)


def twins(folder):
    load_learner(ModelSpec(str(tiny_encoder(folder.with_name("base"))), twins=True), "cpu").save(folder)


def query_terms(folder):
    kind = PluginSetting("sparse", {"queries": "terms"})
    load_learner(ModelSpec(str(tiny_sparse_encoder(folder.with_name("base"))), encoder=kind), "cpu").save(folder)


MAKERS = {
    "dense": tiny_encoder,
    "transformer": lambda folder: tiny_encoder(folder, kind="transformers"),
    "twins": twins,
    "static": tiny_static,
    "model2vec": tiny_model2vec,
    **{name: make for name, make in BY_FAMILY.items() if name not in ("dense", "static")},
    **({"query-terms": query_terms} if "sparse" in BY_FAMILY else {}),
}
ENCODERS = [None, *map(PluginSetting, BY_FAMILY)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a model by its name, made once."""
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "model"
            MAKERS[name](made[name])
        return made[name]

    return folder


def used(folder, **options):
    """All that a plan, a check and a run ask of a model."""
    spec = ModelSpec(str(folder), **options)
    model = resolve(spec)
    for name in ("known", "shape", "digest", "full", "contract", "remarks"):
        read_or_one_line(lambda name=name: getattr(model, name))
    read_or_one_line(model.look_up)
    encoder = load_encoder(spec, "cpu", "fp32")
    for side in ("query", "document"):
        assert len(encoder.encode(TEXTS, side, CHEAP)) == len(TEXTS)


@st.composite
def changed(draw, content):
    """JSON in which one value, at any depth, is another one or is gone."""
    tree = node = json.loads(content)
    parent, key = None, None
    while isinstance(node, dict | list) and node and (parent is None or draw(st.booleans())):
        parent, key = node, draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
        node = parent[key]
    if parent is None:
        return json.dumps(draw(values)).encode()
    if draw(st.booleans()):
        parent[key] = draw(values)
    else:
        del parent[key]
    return json.dumps(tree).encode()


@pytest.mark.parametrize("name", MAKERS)
def test_whole_models_are_used(whole, name):
    used(whole(name), **({"pooling": "cls"} if name == "transformer" else {}))


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
@fuzzed
@given(data=st.data())
def test_any_folder(tmp_path_factory, whole, name, data):
    folder = tmp_path_factory.mktemp("fuzzed") / "model"
    shutil.copytree(whole(name), folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".md")
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=2, unique=True)):
        content = path.read_bytes()
        how = data.draw(st.sampled_from(["gone", "folder", "bytes", *(["json"] * 5 if path.suffix == ".json" else [])]))
        if how == "json":
            path.write_bytes(data.draw(changed(content)))
        elif how == "bytes":
            path.write_bytes(data.draw(mangled(st.just(content))))
        else:
            path.unlink()
            if how == "folder":
                path.mkdir()
    read_or_one_line(lambda: used(folder, encoder=data.draw(st.sampled_from(ENCODERS))))
    shutil.rmtree(folder)


def value(**values):
    """Other values of a JSON file; ... takes one out."""

    def change(path):
        content = {**json.loads(path.read_text()), **values}
        path.write_text(json.dumps({key: item for key, item in content.items() if item is not ...}))

    return change


def content(text):
    return lambda path: path.write_text(text)


def to_folder(path):
    path.unlink()
    path.mkdir()


def without(path):
    path.unlink()


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def token(change):
    def changed(path):
        tree = json.loads(path.read_text())
        change(tree["added_tokens"][1])
        path.write_text(json.dumps(tree))

    return changed


CONFIG = "config_sentence_transformers.json"
OPTIONS = "sentence_bert_config.json"
BROKEN = [
    ("dense", "config.json", value(is_decoder=3), "cannot be opened"),
    ("dense", "config.json", value(max_position_embeddings="x"), "cannot be opened"),
    ("dense", "model.safetensors", to_folder, "no weights found"),
    ("dense", "modules.json", content("[]"), "lists no modules"),
    ("dense", "modules.json", to_folder, "cannot be read as JSON"),
    ("dense", "modules.json", content('[{"path": "../m", "type": "sentence_transformers.M"}]'), "outside the model"),
    ("dense", OPTIONS, value(max_seq_length=1), "declares a maximum length of 1; set query_length"),
    ("dense", "tokenizer_config.json", value(tokenizer_class={}), "cannot be opened"),
    ("twins", "query_1_Pooling/config.json", content("{}"), "cannot be opened"),
    ("twins", "router_config.json", value(structure={"document": [{}]}), "cannot be opened"),
    ("twins", "router_config.json", content("3"), "not have the form that sentence-transformers writes"),
    ("static", "tokenizer.json", token(lambda one: one.update(single_word="x")), "cannot be opened"),
    ("static", "model.safetensors", cut, "not a complete safetensors file"),
    ("model2vec", "model.safetensors", without, "no weights found"),
    ("model2vec", "tokenizer.json", without, "no tokenizer.json found"),
    ("model2vec", "config.json", content("0"), "not a JSON object"),
    ("sparse", CONFIG, value(model_type=...), "set encoder: sparse"),
    ("sparse", CONFIG, value(model_type="CrossEncoder"), "a CrossEncoder, not a dense encoder"),
    ("sparse", OPTIONS, value(transformer_task=...), "masked-language-model head is missing"),
    ("sparse", "config.json", value(hidden_size=None), "cannot be opened"),
    ("query-terms", "query_0_SparseStaticEmbedding/model.safetensors", to_folder, "no weights found"),
    ("multi-vector", "1_Dense/config.json", value(module_output_name="sentence_embedding"), "of token_embeddings"),
    ("multi-vector", "3_Normalize/config.json", content('"x"'), "not a JSON object"),
    ("multi-vector", CONFIG, value(model_type=...), "set encoder: multi-vector"),
    ("multi-vector", OPTIONS, value(query_expansion="x"), "model"),
    ("multi-vector", OPTIONS, value(query_expansion={"length": -1}), "is not a number of tokens"),
    ("multi-vector", "2_MultiVectorMask/config.json", value(skiplist_words=3), "cannot be opened"),
]
BROKEN = [each for each in BROKEN if each[0] in MAKERS]


@pytest.mark.parametrize(("name", "file", "change", "told"), BROKEN, ids=[f"{b[0]}-{b[1]}-{b[3]}" for b in BROKEN])
def test_what_is_wrong_is_told(tmp_path, whole, name, file, change, told):
    folder = shutil.copytree(whole(name), tmp_path / "model")
    change(folder / file)
    with pytest.raises(ModelError) as caught:
        used(folder)
    assert told in str(caught.value)
