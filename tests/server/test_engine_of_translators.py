"""`serve --engine ctranslate2`: translators compute with it, other models as before."""

import threading

import keras
import pytest
from zoo.tiny_bert import LABELS, TEXTS, task, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.models import Transformer
from keras_attention.pipelines.base import load_pipeline
from keras_attention.server import ServerSettings
from keras_attention.server.served_models import load_models
from keras_attention.support.errors import UserError

pytestmark = pytest.mark.slow

SETTINGS = ServerSettings(beam=1, engine="ctranslate2")


def test_translators_of_a_server(tmp_path):
    source = tiny_parts()[1]
    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(source.vocabulary_size, source.vocabulary_size, **sizes)
    model.build()
    write_tiny_entry(tmp_path / "writer", (model, source, source), {"target_language": "de"})
    write_tiny(
        tmp_path / "moods", tiny_classifier().model, [{"source": TEXTS[0], "output": LABELS["binary"][0]}], task=task()
    )
    batches = []
    models = load_models([str(tmp_path / "writer"), str(tmp_path / "moods")], SETTINGS, lambda _, n: batches.append(n))
    for step in models["writer"].steps:
        step()
    expected = load_pipeline(tmp_path / "writer").translate(ENGLISH, beam_size=1)
    answers = {}

    def ask(text):
        answers[text] = models["writer"].pipeline.reply(texts=[text])[0]["translations"][0]["text"]

    threads = [threading.Thread(target=ask, args=(text,)) for text in ENGLISH]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[text] for text in ENGLISH] == expected
    assert len(batches) == len(ENGLISH)
    assert models["moods"].pipeline.classify(TEXTS[0])


def test_a_recurrent_translator_is_refused_by_name(tmp_path):
    write_tiny_entry(tmp_path / "words")
    with pytest.raises(UserError, match="words is an AttentionSeq2Seq"):
        load_models([str(tmp_path / "words")], SETTINGS, lambda *_: None)
