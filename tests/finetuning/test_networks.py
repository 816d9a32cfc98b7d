"""Fine-tuning asks the network for its vector, head and layer groups: recurrent networks from a table to answers."""

import gzip
import json
import urllib.request
from dataclasses import replace

import keras
import numpy as np
import pytest
from finetuning.test_workflow import QUIET, examples, write_csv
from server.tiny_zoo import server_in_this_process
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_encoder, tokenizer, write_tiny
from zoo.tiny_bert import task as tiny_task

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.finetuning.label_training import freeze, layers_of
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.starting_model import open_start
from keras_attention.finetuning.workflow import finetune_classifier, prepare
from keras_attention.models import RecurrentClassifier
from keras_attention.support.errors import UserError
from keras_attention.training.history import Epoch

TABLE = ("--text", "review", "--label", "mood", "--vocabulary-size", "67", "--max-tokens", "17", "--no-jit-compile")
TABLE += ("--rows-per-batch", "16", "--size", "tiny", "--blend", "none")


def recurrent_network(cell="lstm", num_labels=2, **settings):
    keras.utils.set_random_seed(5)
    model = RecurrentClassifier(tokenizer().vocabulary_size, 7, num_labels, cell=cell, **settings)
    model.build()
    return model


@pytest.mark.slow
@pytest.mark.parametrize("network", ["bert", "lstm", "lstmn", "gru", "han"])
def test_a_network_alone_learns_a_small_table(network, tmp_path, capsys):
    table = write_csv(tmp_path / "train.csv", examples("binary", 160))
    test = write_csv(tmp_path / "test.csv", examples("binary", 40))
    out = str(tmp_path / "mine")
    flags = ("--network", network, "--epochs", "8", "--test", test, "--json", "--out", out)
    flags += ("--learning-rate", "1e-3") if network == "bert" else ()
    assert main(["finetune", table, *TABLE, *flags]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"]["accuracy"] > 92
    assert load(out).blend is None
    assert main(["zoo", "verify", out]) == 0
    assert main(["classify", "--model", out, "a fine day", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["label"] == "good"
    explained = load(out).explain("a fine day the film")
    assert max(explained.words, key=lambda word: word.effect).text == "fine"


@pytest.mark.slow
def test_an_interrupted_training_of_a_recurrent_network_resumes(tmp_path, capsys, monkeypatch):
    table = write_csv(tmp_path / "train.csv", examples("binary", 60))
    command = ["finetune", table, *TABLE, "--network", "lstm", "--epochs", "2", "--json"]
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    keras.backend.clear_session()
    usual, steps = Epoch.record, iter(range(1, 100))

    def interrupted(epoch, measured):
        usual(epoch, measured)
        if next(steps) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Epoch, "record", interrupted)
        assert main([*command, "--out", str(tmp_path / "parts")]) == 130
    keras.backend.clear_session()
    assert main([*command, "--out", str(tmp_path / "parts"), "--resume"]) == 0
    capsys.readouterr()
    whole, parts = (load(tmp_path / name).model.get_weights() for name in ("whole", "parts"))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_padding_does_not_change_the_vector():
    model = recurrent_network("lstmn")
    ids = np.array([[3, 5, 7, 2, 11]], "int32")
    padded = np.pad(ids, ((0, 0), (0, 6)))
    np.testing.assert_allclose(model.pooled(padded), model.pooled(ids), atol=1e-6)


def test_the_layers_of_a_recurrent_network_are_groups_too():
    model = recurrent_network(num_layers=2)
    embeddings, first, second = layers_of(model)
    assert [weight.path for weight in embeddings] == [model.token_embedding.embeddings.path]
    assert {weight.path for weight in (*first, *second)} == {w.path for cell in model.cells for w in cell.weights}
    frozen = freeze(model, FinetuneSettings(freeze=1))
    assert {layer.name for layer in frozen} == {"token_embedding", "cell_0"}
    with pytest.raises(UserError, match="--freeze may be at most 2, the number of layers. Found: 3"):
        freeze(model, FinetuneSettings(freeze=3))


def test_a_network_without_groups_refuses_frozen_layers():
    model = recurrent_network()
    model.layer_groups = list
    assert freeze(model, FinetuneSettings(freeze_embeddings=True)) == []
    with pytest.raises(UserError, match="--freeze needs a network with layers in order. Found: a RecurrentClassifier"):
        freeze(model, FinetuneSettings(freeze=1))


@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_the_recurrent_layers_of_an_entry_are_a_start(cell, tmp_path):
    network = recurrent_network(cell, num_layers=2)
    write_tiny(tmp_path / "start", network, task=tiny_task())
    settings = FinetuneSettings(max_tokens=17, jit_compile=False, layers=1)
    prepared = prepare(examples("multiclass", 40), None, tmp_path / "start", settings, **{"notify": QUIET["notify"]})
    model = prepared.classifier.model
    assert (model.num_layers, model.settings["num_labels"], prepared.vectors) == (1, 3, None)
    for ours, theirs in zip(model.cells[0].get_weights(), network.cells[0].get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(UserError, match="start has 2 layers. Received: --layers 3"):
        prepare(examples("binary", 30), None, tmp_path / "start", FinetuneSettings(layers=3), notify=QUIET["notify"])


def test_a_recurrent_classifier_with_the_same_labels_keeps_its_head(tmp_path):
    network = recurrent_network()
    write_tiny(tmp_path / "start", network, task=tiny_task() | {"label_names": ["good", "bad"]})
    settings = FinetuneSettings(max_tokens=17, jit_compile=False)
    prepared = prepare(examples("binary", 30), None, tmp_path / "start", settings, notify=QUIET["notify"])
    ours, theirs = (np.asarray(model(np.array([[3, 5, 7]], "int32"))) for model in (prepared.classifier.model, network))
    np.testing.assert_allclose(ours, theirs[:, ::-1], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "lstm", "lora": 2}, "--lora adapts a trained model. Expected: --from MODEL. Found: --from none"),
        ({"network": "lstm", "attention_pattern": "bigbird"}, "--attention-pattern has no effect on a Recurrent"),
        ({"network": "lstm", "contrastive": True}, "--contrastive needs a trained encoder"),
        ({"network": "lstm", "pairs": "apart"}, "--pairs apart needs rows with two texts"),
        ({"network": "han", "layers": 1}, "--layers has no effect on a HierarchicalAttentionClassifier"),
        ({"network": "bert", "vectors": "v.txt"}, "--vectors needs --network han, lstm, gru or lstmn. Found: a Bert"),
        ({"vectors": "v.txt"}, "--vectors needs --network han, lstm, gru or lstmn with random weights. Found: minilm_"),
        ({"network": "gru", "vectors": "missing.txt"}, "missing.txt"),
        (
            {"network": "rnn"},
            "There is no network 'rnn' that can be fine-tuned. Known: bert, lstm, gru, lstmn, han, han-mean",
        ),
    ],
)
def test_settings_that_a_recurrent_network_lacks(settings, message):
    with pytest.raises(UserError, match=message):
        finetune_classifier(examples("binary", 30), None, None, FinetuneSettings(**settings), **QUIET)


def test_lora_needs_a_network_with_attention(tmp_path):
    write_tiny(tmp_path / "start", recurrent_network(), task=tiny_task())
    settings = FinetuneSettings(lora=2, max_tokens=17)
    with pytest.raises(UserError, match="--lora adapts the attention of a BERT. Found: a RecurrentClassifier"):
        prepare(examples("binary", 30), None, tmp_path / "start", settings, notify=QUIET["notify"])


def test_a_named_network_must_be_that_of_the_start(tmp_path):
    write_tiny(tmp_path / "encoder", tiny_encoder(num_layers=1))
    write_tiny(tmp_path / "lstm", recurrent_network(), task=tiny_task())
    assert open_start(tmp_path / "encoder", "bert").entry.name == "encoder"
    assert open_start(tmp_path / "lstm", "lstm").entry.name == "lstm"
    for name, network in (("encoder", "lstm"), ("lstm", "lstmn"), ("lstm", "bert")):
        with pytest.raises(UserError, match=f"which is no {network}. Leave out --network, .* or --from"):
            open_start(tmp_path / name, network)
    assert open_start("none").architecture.name == "BertClassifier"
    assert open_start(None, "gru") == open_start("none", "gru")


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["lstm", "lstmn"])
def test_an_exported_recurrent_network_gives_the_same_answers(cell, tmp_path):
    import tensorflow as tf

    write_tiny(tmp_path / "mine", recurrent_network(cell), task=tiny_task())
    assert main(["export", str(tmp_path / "mine"), str(tmp_path / "exported")]) == 0
    answers = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"](texts=tf.constant(TEXTS))
    expected = load(tmp_path / "mine").classify(TEXTS, return_scores=True)
    for label, probability, answer in zip(answers["label"], answers["probabilities"], expected, strict=True):
        assert label.numpy().decode() == answer.label
        assert probability.numpy()[0] == pytest.approx(answer.probabilities[answer.label], abs=1e-5)


def test_the_server_answers_for_a_recurrent_network(tmp_path):
    write_tiny(tmp_path / "mine", recurrent_network(), task=tiny_task())
    expected = load(tmp_path / "mine").classify(TEXTS)
    with server_in_this_process(tmp_path) as (url, _):
        request = urllib.request.Request(f"{url}/v1/classify", json.dumps({"texts": TEXTS}).encode())
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert [one["label"] for one in json.load(answer)["answers"]] == expected


def test_a_recurrent_classifier_has_labels_but_no_vectors(tmp_path):
    entry = write_tiny(tmp_path / "lstmn", recurrent_network("lstmn"), task=tiny_task())
    classifier = load(entry.folder)
    view = classifier.attention_view(TEXTS[0])
    assert "RecurrentClassifier" in str(view)
    with pytest.raises(UserError, match="A RecurrentClassifier gives labels, but no vectors"):
        classifier.encode(TEXTS)
    write_tiny(tmp_path / "lstm", recurrent_network("lstm"), task=tiny_task())
    with pytest.raises(UserError, match="This model has no attention"):
        load(tmp_path / "lstm").attention_view(TEXTS[0])
    assert [load(tmp_path / "lstm").has_attention, classifier.has_attention] == [False, True]
    assert tiny_classifier(num_layers=1).has_attention


WORDS = {"the": [-1, 0.5, 2], "film": [0.25, -3, 1], "fine": [7, 7, 7]}


def word_vectors(folder, ending):
    """Writes `WORDS` in the format of an ending; returns the path."""
    path = folder / f"vectors{ending}"
    lines = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in WORDS.items())
    header = f"{len(WORDS)} 3\n"
    if ending == ".npy":
        np.save(path, np.array(list(WORDS.values())))
        path.with_suffix(".txt").write_text("\n".join(WORDS))
    elif ending == ".bin":
        rows = (word.encode() + b" " + np.array(vector, "<f4").tobytes() for word, vector in WORDS.items())
        path.write_bytes(header.encode() + b"".join(rows))
    else:
        pack = gzip.compress if ending == ".txt.gz" else bytes
        path.write_bytes(pack((header * (ending == ".vec") + lines).encode()))
    return path


@pytest.mark.parametrize(
    ("network", "ending"), [("lstm", ".txt"), ("han", ".txt.gz"), ("gru", ".vec"), ("lstmn", ".bin"), ("han", ".npy")]
)
def test_word_vectors_are_the_first_embeddings(network, ending, tmp_path):
    messages = []
    vectors = str(word_vectors(tmp_path, ending))
    settings = FinetuneSettings(network=network, vectors=vectors, vocabulary_size=67, size="tiny", jit_compile=False)
    prepared = prepare(examples("binary", 60), None, None, settings, notify=messages.append)
    pieces = prepared.classifier.tokenizer.vocabulary
    table = np.asarray(prepared.classifier.model.token_embedding.embeddings)
    assert table.shape == (len(pieces), 3)
    assert table[pieces.index("film")].tolist() == [0.25, -3, 1]
    assert table[0].tolist() == [0, 0, 0]
    assert np.isfinite(table).all()
    assert np.abs(table[pieces.index("[UNK]")]).max() > 0
    (line,) = [line for line in messages if line.startswith("Word vectors")]
    assert f"3 of {len(pieces)} tokens have one" in line
    assert f"The other {len(pieces) - 3} start" in line
    assert "Frequent ones without: " in line


def test_the_card_has_the_name_of_the_vectors_without_their_folder(tmp_path, capsys):
    table, out = write_csv(tmp_path / "train.csv", examples("binary", 60)), tmp_path / "mine"
    flags = ("--network", "lstm", "--vectors", str(word_vectors(tmp_path, ".txt")), "--epochs", "1", "--out", str(out))
    assert main(["finetune", table, *TABLE, *flags]) == 0
    assert json.loads((out / "metrics.json").read_text())["training"]["vectors"] == "vectors.txt"
    assert "Word vectors: 3 of " in capsys.readouterr().out


def test_documents_are_no_pairs():
    rows = examples("binary", 30)
    with pytest.raises(UserError, match="a document is one text"):
        prepare(replace(rows, texts_b=rows.texts), None, None, FinetuneSettings(network="han"), notify=QUIET["notify"])
