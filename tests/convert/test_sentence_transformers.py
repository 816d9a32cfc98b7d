"""Each key that changes how sentence-transformers computes vectors is applied to ours, or refused by its name.

Run as a program, `test_sentence_transformers.py FOLDER`, this file is the part with torch: it writes every case and the
vectors of the library. TORCH_PYTHON names another Python that has the library.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIALS, "a", "b", "c", "##b", "##c", "ab", "A", "é", "e", ",", "中", "q", "##q"]
SIZES = {"hidden_size": 22, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 29}
POSITIONS = 23
TEXTS = ["a b c", "", "ab abc , a", "A b É é 中a", "q" * 101, "a b c ab , " * 7, "b " * 21, "b " * 22]
MEAN, CLS = ({"word_embedding_dimension": 22, "pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}
             for cls in (False, True))  # fmt: skip
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
TOKENIZER, SENTENCE = "tokenizer_config.json", "sentence_bert_config.json"
LIBRARY, POOLING = "config_sentence_transformers.json", "1_Pooling/config.json"
UNCASED = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
PROMPTS = {"query": "a a ", "none": ""}


def frame(kind, special="[SEP]"):
    """A post-processor of tokenizer.json."""
    ids = {piece: PIECES.index(piece) for piece in ("[CLS]", special)}
    if kind == "BertProcessing":
        return {"type": kind, "sep": [special, ids[special]], "cls": ["[CLS]", ids["[CLS]"]]}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    single.append({"SpecialToken": {"id": special, "type_id": 0}})
    tokens = {piece: {"id": piece, "ids": [number], "tokens": [piece]} for piece, number in ids.items()}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": kind, "single": single, "pair": pair, "special_tokens": tokens}


def tokenizer_json(lowercase=True, model=None, normalizer=None, added=(), **fields):
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens = [{"id": number, "content": piece, **flags} for number, piece in enumerate(SPECIALS)]
    tokens += [{"id": PIECES.index(piece), "content": piece, **flags, "special": False} for piece in added]
    wordpiece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": tokens,
        "normalizer": {**bert, "lowercase": lowercase, **(normalizer or {})},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": frame("TemplateProcessing"),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {**wordpiece, "max_input_chars_per_word": 100, "vocab": vocabulary, **(model or {})},
        **fields,
    }


def limit(value, **more):
    return {TOKENIZER: {**UNCASED, "model_max_length": value, **more}}


def sentence(**fields):
    return {SENTENCE: {"max_seq_length": 17, "do_lower_case": False, **fields}}


CUT = {"truncation": {"max_length": 5, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}}
# Name -> the files that differ from the usual ones (None: is missing), and a part of our message or None.
APPLIED = {
    "as it is": {},
    "without modules": {"modules.json": None},
    "without modules, with a limit": {"modules.json": None, **limit(7)},
    "not normalized": {"modules.json": MODULES[:2]},
    "cls": {POOLING: CLS},
    "the newer name of cls": {POOLING: {"embedding_dimension": 22, "pooling_mode": "cls"}},
    "without the prompt": {POOLING: {**MEAN, "include_prompt": False}},
    "model_max_length": limit(7),
    "model_max_length, with max_seq_length null": {**limit(7), **sentence(max_seq_length=None)},
    "model_max_length, with max_seq_length": {**limit(7), **sentence(max_seq_length=11)},
    "max_seq_length": sentence(max_seq_length=5),
    "max_seq_length of a DistilBERT": {"sentence_distilbert_config.json": {"max_seq_length": 5}},
    "a model_max_length of 10 ** 30": limit(int(1e30)),
    "a model_max_length of 1e30": limit(1e30),
    "a model_max_length above the positions": limit(31),
    "max_len, the older name": {TOKENIZER: {**UNCASED, "max_len": 7}},
    "max_len beside model_max_length": limit(7, max_len=5),
    "cased": {TOKENIZER: {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}},
    "cased tokenizer.json": {"vocab.txt": None, "tokenizer.json": tokenizer_json(False),
                             TOKENIZER: {"do_lower_case": False, "tokenizer_class": "BertTokenizerFast"}},
    "tokenizer.json": {"vocab.txt": None, "tokenizer.json": tokenizer_json()},
    "tokenizer.json and vocab.txt": {"tokenizer.json": tokenizer_json()},
    "another frame": {"vocab.txt": None, "tokenizer.json": tokenizer_json(post_processor=frame("BertProcessing"))},
    "a truncation of tokenizer.json, which counts for nothing": {"tokenizer.json": tokenizer_json(**CUT)},
    "a prompt that is not the default": {LIBRARY: {"prompts": PROMPTS, "default_prompt_name": None}},
    "an empty prompt": {LIBRARY: {"prompts": PROMPTS, "default_prompt_name": "none"}},
    "another similarity": {LIBRARY: {"similarity_fn_name": "dot"}},
    "the width of the vectors": {LIBRARY: {"truncate_dim": 22}},
}  # fmt: skip
REFUSED = {
    "a default prompt": ({LIBRARY: {"prompts": PROMPTS, "default_prompt_name": "query"}}, "default_prompt_name"),
    "shorter vectors": ({LIBRARY: {"truncate_dim": 11}}, "truncate_dim"),
    "another kind of model": ({LIBRARY: {"model_type": "SparseEncoder"}}, "model_type"),
    "max pooling": ({POOLING: {"embedding_dimension": 22, "pooling_mode": "max"}}, "pooling_mode"),
    "two poolings": ({POOLING: {"embedding_dimension": 22, "pooling_mode": ["cls", "mean"]}}, "pooling_mode"),
    "normalized tokens": ({"2_Normalize/config.json": {"module_input_name": "token_embeddings"}}, "module_input_name"),
    "a task": (sentence(transformer_task="fill-mask"), "transformer_task"),
    "settings of a call": (sentence(processing_kwargs={"text": {"max_length": 5}}), "processing_kwargs"),
    "settings of the tokenizer": (sentence(processor_kwargs={"model_max_length": 5}), "processor_kwargs"),
    "lower-casing before a cased tokenizer": (
        {**sentence(do_lower_case=True), TOKENIZER: {"do_lower_case": False}}, "do_lower_case"),
    "a cut on the left": (limit(7, truncation_side="left"), "truncation_side"),
    "padding on the left": (limit(7, padding_side="left"), "padding_side"),
    "accents kept": (limit(23, strip_accents=False), "strip_accents"),
    "Chinese words": (limit(23, tokenize_chinese_chars=False), "tokenize_chinese_chars"),
    "another [SEP]": (limit(23, sep_token="a"), "sep_token"),
    "another [CLS] in the map": ({"special_tokens_map.json": {"cls_token": "[SEP]"}}, "cls_token"),
    "a further special token": (limit(23, additional_special_tokens=["ab"]), "additional_special_tokens"),
    "a further token": ({"added_tokens.json": {"ab": 10}}, "adds the token"),
    "a further token of tokenizer.json": (
        {"vocab.txt": None, "tokenizer.json": tokenizer_json(added=["ab"])}, "adds the token"),
    "another frame": (
        {"vocab.txt": None, "tokenizer.json": tokenizer_json(post_processor=frame("TemplateProcessing", "[MASK]"))},
        "a text between"),
    "shorter words": (
        {"vocab.txt": None, "tokenizer.json": tokenizer_json(model={"max_input_chars_per_word": 2})},
        "max_input_chars_per_word"),
    "another splitting": (
        {"vocab.txt": None, "tokenizer.json": tokenizer_json(pre_tokenizer={"type": "WhitespaceSplit"})}, "type is"),
    "another normalizer": (
        {"vocab.txt": None, "tokenizer.json": tokenizer_json(normalizer={"clean_text": False})}, "clean_text"),
    "contradicting case": ({"tokenizer.json": tokenizer_json(False)}, "do_lower_case"),
    "contradicting pieces": (
        {"vocab.txt": "\n".join([*SPECIALS, *PIECES[:4:-1]]), "tokenizer.json": tokenizer_json()}, "other pieces"),
    "an adapter": ({"adapter_config.json": {"peft_type": "LORA"}}, "adapter_config.json"),
    "an unknown key": (sentence(new_key=3), "new_key"),
}  # fmt: skip


def write_files(folder, changes):
    """The files of an encoder beside its weights, as sentence-transformers has them, but for the changes."""
    files = {
        "modules.json": MODULES, POOLING: MEAN, TOKENIZER: UNCASED, "vocab.txt": "\n".join(PIECES), **changes
    }  # fmt: skip
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        elif path.exists():
            path.unlink()


def write_model(folder):
    """Saves a BERT of transformers with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(PIECES), max_position_embeddings=POSITIONS, **SIZES)
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.uniform_(-0.4, 0.4)
    model.save_pretrained(folder)


def main(folder):
    from sentence_transformers import SentenceTransformer

    for name, changes in APPLIED.items():
        write_model(folder / name)
        write_files(folder / name, changes)
        np.save(folder / name / "expected.npy", SentenceTransformer(str(folder / name), device="cpu").encode(TEXTS))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of all cases."""
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    missing = [name for name in ("torch", "sentence_transformers") if importlib.util.find_spec(name) is None]
    if missing and python == sys.executable:
        pytest.skip(f"without {' and '.join(missing)}: pip install '.[benchmarks]'")
    folder = tmp_path_factory.mktemp("sentence_transformers")
    environment = {**os.environ, "USE_TF": "0", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    process = subprocess.run([python, __file__, str(folder)], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return folder


def encoder_of(folder):
    from keras_attention.cli.convert import about_converted
    from keras_attention.convert import load_checkpoint
    from keras_attention.pipelines.base import make_pipeline
    from keras_attention.tokenizers import WordPieceTokenizer

    converted = load_checkpoint(folder)
    tokenizer = WordPieceTokenizer(converted.vocabulary, converted.lowercase)
    return make_pipeline(converted.model, {"text": tokenizer}, about_converted(converted, "en"))


@pytest.mark.slow
@pytest.mark.parametrize("case", APPLIED)
def test_vectors_are_those_of_the_library(case, written):
    vectors = encoder_of(written / case).encode(TEXTS).pooled
    np.testing.assert_allclose(vectors, np.load(written / case / "expected.npy"), atol=1e-5)


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_modules_are_refused_by_name(case, tmp_path):
    from convert.tiny_checkpoints import write_checkpoint

    from keras_attention.convert import load_checkpoint
    from keras_attention.support.errors import UserError

    changes, message = REFUSED[case]
    write_checkpoint(tmp_path, architectures=["BertModel"], vocab_size=len(PIECES), **SIZES)
    write_files(tmp_path, changes)
    with pytest.raises(UserError, match=message) as caught:
        load_checkpoint(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
