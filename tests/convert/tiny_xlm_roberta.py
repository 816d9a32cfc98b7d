"""A tiny random checkpoint with the tokenizer of XLM-RoBERTa, and what other libraries compute from it."""

import base64
import functools
import io
import json

import numpy as np
from convert.tiny_checkpoints import safetensors_bytes

FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
TEXTS = [
    "A dog runs through the snow.", "Ein Hund läuft durch den Schnee.", "Un chien court dans la neige.",
    "Un perro corre por la nieve.", "We stayed at home, because it rained.", "Es regnete den ganzen Tag!",
]  # fmt: skip
STRANGE = [
    "",
    " ",
    "  a   dog ",
    "ＤＯＧ ① ﬁre",
    "日本語のテキスト",
    "e\u0301te\u0301",
    "dog\u200bs 😀",
    "<s> </s> <mask>",
    "dogdogdog,,,",
]
SIZES = {"hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 9}
UNUSED_ROWS = 3  # behind those of the pieces, as published models have


@functools.cache
def sentencepiece_model():
    """A trained unigram model as XLM-RoBERTa stores it: bytes."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 5), model_writer=model, model_type="unigram", vocab_size=56, minloglevel=2
    )
    return model.getvalue()


def parsed(content):
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(content)


def tokenizer_json(**changes):
    """The fields of tokenizer.json, as `tokenizers` writes them for XLM-RoBERTa."""
    model = parsed(sentencepiece_model())
    pairs = [[piece, 0.0] for piece in FIRST] + [[one.piece, one.score] for one in model.pieces[3:]] + [["<mask>", 0.0]]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    ids = {piece: number for number, (piece, _) in enumerate(pairs)}
    part = {piece: {"SpecialToken": {"id": piece, "type_id": 0}} for piece in FIRST}
    text = {name: {"Sequence": {"id": name, "type_id": 0}} for name in "AB"}
    special = {piece: {"id": piece, "ids": [ids[piece]], "tokens": [piece]} for piece in ("<s>", "</s>")}
    charsmap = base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": ids[piece], "content": piece, **flags} for piece in [*FIRST, "<mask>"]],
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [part["<s>"], text["A"], part["</s>"]],
            "pair": [part["<s>"], text["A"], part["</s>"], part["</s>"], text["B"], part["</s>"]],
            "special_tokens": special,
        },
        "decoder": metaspace,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": pairs, "byte_fallback": False},
        **changes,
    }


def vocabulary_size():
    return len(parsed(sentencepiece_model()).pieces) + 2 + UNUSED_ROWS


def tensors_like(prefix, segments, positions, head=""):
    """Random tensors under the names of `transformers`.

    Args:
        prefix: of the encoder, such as "roberta.", or "" for one that was saved alone.
        segments, positions: rows of these tables.
        head: "", "masked_lm" or "classifier".
    """
    random, D, inner = np.random.default_rng(0), SIZES["hidden_size"], SIZES["intermediate_size"]
    embeddings = f"{prefix}embeddings."
    shapes = {f"{embeddings}word_embeddings.weight": (vocabulary_size(), D)}
    shapes |= {f"{embeddings}position_embeddings.weight": (positions, D)}
    shapes |= {f"{embeddings}token_type_embeddings.weight": (segments, D)}
    norms = [f"{embeddings}LayerNorm"]
    dense = {}
    for i in range(SIZES["num_hidden_layers"]):
        layer = f"{prefix}encoder.layer.{i}."
        dense |= {f"{layer}attention.self.{what}": (D, D) for what in ("query", "key", "value")}
        dense |= {f"{layer}attention.output.dense": (D, D)}
        dense |= {f"{layer}intermediate.dense": (inner, D), f"{layer}output.dense": (D, inner)}
        norms += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    if head == "masked_lm":
        dense["lm_head.dense"] = (D, D)
        norms.append("lm_head.layer_norm")
        shapes["lm_head.bias"] = (vocabulary_size(),)
    if head == "classifier":
        dense |= {"classifier.dense": (D, D), "classifier.out_proj": (3, D)}
    for name, shape in [*dense.items(), *((name, (D,)) for name in norms)]:
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def write_xlm_roberta(folder, tensors, files=("sentencepiece.bpe.model",), fields=None, **config):
    """Writes a checkpoint with the files of the tokenizer that are named; `fields` change those of tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"vocab_size": vocabulary_size(), "hidden_act": "gelu", "layer_norm_eps": 1e-5, **SIZES, **config}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    settings = {"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 16, "mask_token": "<mask>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if "sentencepiece.bpe.model" in files:
        (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model())
    if "tokenizer.json" in files:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(**(fields or {}))))
    return folder
