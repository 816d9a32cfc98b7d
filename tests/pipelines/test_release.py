"""What is written beside the weights of a trained model."""

from types import SimpleNamespace

import numpy as np

from keras_attention.models import new_language_model
from keras_attention.pipelines import release
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.tokenizers.character_tokenizer import CharacterTokenizer
from keras_attention.tokenizers.special_tokens import END_ID


def test_drawn_images_are_complete(tmp_path, monkeypatch):
    """Also by a model that expects an end with a probability of 0.2 after each pixel."""
    tokenizer = CharacterTokenizer("01")
    sizes = {"vocabulary_size": tokenizer.vocabulary_size, "max_length": 64, "hidden_dim": 4, "num_layers": 1}
    model = new_language_model("lstm", {**sizes, "dropout": 0.0})
    model.set_weights([np.zeros(weight.shape) for weight in model.weights])
    probabilities = np.full(tokenizer.vocabulary_size, 1e-9)
    probabilities[END_ID], probabilities[tokenizer.encode(["01"])[0]] = 0.2, 0.4
    model.output_bias.assign(np.log(probabilities))

    drawn = []
    monkeypatch.setattr(release, "completion_plot", lambda images, completed, path: drawn.extend(completed))
    monkeypatch.setattr(release, "learning_curve_plot", lambda history, path: None)
    monkeypatch.setattr(release, "write_entry", lambda *_, extra_files, **__: [add(tmp_path) for add in extra_files])
    settings = {"data": "pixels", "text": [], "validation": [], "validation_split": 0.1, "max_tokens": 64}
    settings |= {"num_layers": 1, "language": "en", "seed": 1}
    images = ["01" * 32, "10" * 32]
    release.write_language_model(
        tmp_path,
        TextGenerator(model, tokenizer),
        scores={},
        settings=settings,
        result=SimpleNamespace(history=[], seconds=0.0),
        facts={"command": "", "commit": "", "hardware": ""},
        images=images,
    )
    assert [len(image) for image in drawn] == [64, 64]
    assert [image[:32] for image in drawn] == [image[:32] for image in images]
    assert set("".join(drawn)) == {"0", "1"}
