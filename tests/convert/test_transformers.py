"""Checkpoints that transformers itself writes here: our outputs are those of its own models.

Run as a program, `test_transformers.py FOLDER`, this file is the part with torch, which does not bear TensorFlow in the
same process: it writes every case and what its model answers.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SIZES = {"vocab_size": 17, "max_position_embeddings": 13}
BERT = {**SIZES, "hidden_size": 22, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 29}
DISTILBERT = {**SIZES, "dim": 22, "n_layers": 3, "n_heads": 2, "hidden_dim": 29}
HEADS = {"Model": {}, "ForMaskedLM": {}, "ForPreTraining": {}, "ForSequenceClassification": {"num_labels": 5}}
# Name -> family, head, further settings, dtype.
CASES = {f"Bert{head}": ("Bert", head, {}, "float32") for head in HEADS}
CASES |= {f"DistilBert{head}": ("DistilBert", head, {}, "float32") for head in HEADS if head != "ForPreTraining"}
CASES |= {name: ("Bert", "ForMaskedLM", {"hidden_act": name}, "float32") for name in ("gelu_new", "relu", "silu")}
CASES |= {name: ("Bert", "ForMaskedLM", {}, name) for name in ("float16", "bfloat16")}
CASES["relu in DistilBert"] = ("DistilBert", "ForMaskedLM", {"activation": "relu"}, "float32")
CASES["another epsilon"] = ("Bert", "Model", {"layer_norm_eps": 0.02}, "float32")


def write_case(folder, family, head, settings, dtype):
    """Saves a model of transformers with random weights, and its first output as expected.npy."""
    import torch
    import transformers
    from convert.tiny_checkpoints import TINY_BERT, inputs

    sizes = BERT if family == "Bert" else DISTILBERT
    config = getattr(transformers, f"{family}Config")(**sizes, **HEADS[head], **settings)
    model = getattr(transformers, f"{family}{head}")(config).eval()
    torch.manual_seed(0)
    texts = inputs(segments=family == "Bert")
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids"}
    theirs = {names[name]: torch.tensor(ids) for name, ids in texts.items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.uniform_(-0.4, 0.4)
        model = model.to(getattr(torch, dtype))
        model.save_pretrained(folder)
        expected = model.float()(**theirs, attention_mask=torch.tensor(texts["token_ids"] != 0))[0]
    np.save(folder / "expected.npy", expected.numpy())
    (folder / "vocab.txt").write_text((TINY_BERT / "vocab.txt").read_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of all cases."""
    missing = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"without {' and '.join(missing)}: pip install '.[benchmarks]'")
    folder = tmp_path_factory.mktemp("transformers")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "USE_TF": "0"}
    process = subprocess.run([sys.executable, __file__, str(folder)], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_transformers(case, written):
    from convert.tiny_checkpoints import inputs
    from layer_checks import assert_all_close

    from keras_attention.convert import load_checkpoint

    family, head, _, _ = CASES[case]
    converted = load_checkpoint(written / case)
    texts, expected = inputs(segments=family == "Bert"), np.load(written / case / "expected.npy")
    actual = np.asarray(converted.model(texts))
    is_token = texts["token_ids"] != 0
    if actual.ndim == 3:
        actual, expected = actual[is_token], expected[is_token]
    assert_all_close([actual], [expected], 1e-4)
    names = tuple(f"LABEL_{i}" for i in range(5)) if head == "ForSequenceClassification" else None
    assert converted.label_names == names


if __name__ == "__main__":
    for name, case in CASES.items():
        write_case(Path(sys.argv[1]) / name, *case)
