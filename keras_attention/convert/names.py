"""What the parts of our BERT models are called in published checkpoints."""

import re

# Ours to Google's. Hugging Face has the same names with dots for slashes, but for `HUGGING_FACE` and `LEAVES`.
GOOGLE = {
    "encoder/token_embedding/embeddings": "bert/embeddings/word_embeddings",
    "encoder/position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "encoder/segment_embedding/embeddings": "bert/embeddings/token_type_embeddings",
    "encoder/embedding_norm": "bert/embeddings/LayerNorm",
    "encoder/layer_{}/self_attention/query": "bert/encoder/layer_{}/attention/self/query",
    "encoder/layer_{}/self_attention/key": "bert/encoder/layer_{}/attention/self/key",
    "encoder/layer_{}/self_attention/value": "bert/encoder/layer_{}/attention/self/value",
    "encoder/layer_{}/self_attention/attention_output": "bert/encoder/layer_{}/attention/output/dense",
    "encoder/layer_{}/self_attention_norm": "bert/encoder/layer_{}/attention/output/LayerNorm",
    "encoder/layer_{}/feed_forward/intermediate_dense": "bert/encoder/layer_{}/intermediate/dense",
    "encoder/layer_{}/feed_forward/output_dense": "bert/encoder/layer_{}/output/dense",
    "encoder/layer_{}/feed_forward_norm": "bert/encoder/layer_{}/output/LayerNorm",
    "head_dense": "cls/predictions/transform/dense",
    "head_norm": "cls/predictions/transform/LayerNorm",
    "output_bias": "cls/predictions/output_bias",
}
HUGGING_FACE = {
    "output_bias": "cls.predictions.bias",
    "pooler_dense": "bert.pooler.dense",
    "output_dense": "classifier",
}
DISTILBERT = {
    "encoder/token_embedding/embeddings": "distilbert.embeddings.word_embeddings",
    "encoder/position_embedding/embeddings": "distilbert.embeddings.position_embeddings",
    "encoder/embedding_norm": "distilbert.embeddings.LayerNorm",
    "encoder/layer_{}/self_attention/query": "distilbert.transformer.layer.{}.attention.q_lin",
    "encoder/layer_{}/self_attention/key": "distilbert.transformer.layer.{}.attention.k_lin",
    "encoder/layer_{}/self_attention/value": "distilbert.transformer.layer.{}.attention.v_lin",
    "encoder/layer_{}/self_attention/attention_output": "distilbert.transformer.layer.{}.attention.out_lin",
    "encoder/layer_{}/self_attention_norm": "distilbert.transformer.layer.{}.sa_layer_norm",
    "encoder/layer_{}/feed_forward/intermediate_dense": "distilbert.transformer.layer.{}.ffn.lin1",
    "encoder/layer_{}/feed_forward/output_dense": "distilbert.transformer.layer.{}.ffn.lin2",
    "encoder/layer_{}/feed_forward_norm": "distilbert.transformer.layer.{}.output_layer_norm",
    "head_dense": "vocab_transform",
    "head_norm": "vocab_layer_norm",
    "output_bias": "vocab_projector.bias",
    "pooler_dense": "pre_classifier",
    "output_dense": "classifier",
}
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def google_name(path):
    """The name in a checkpoint of Google's of the weight that we have at `path`."""
    part, leaf = _part_and_leaf(path)
    return "/".join([_looked_up(GOOGLE, part), *leaf])


def hugging_face_name(path, model_type):
    """The name in `model.safetensors` of the weight that we have at `path`, for "bert" or "distilbert"."""
    part, leaf = _part_and_leaf(path)
    leaf = [LEAVES[name] for name in leaf] or (["weight"] if part.endswith("embeddings") else [])
    if model_type == "distilbert":
        return ".".join([_looked_up(DISTILBERT, part), *leaf])
    if part in HUGGING_FACE:
        return ".".join([HUGGING_FACE[part], *leaf])
    return ".".join([_looked_up(GOOGLE, part).replace("layer_", "layer.").replace("/", "."), *leaf])


def _part_and_leaf(path):
    """ "a/b/kernel" as "a/b" and ["kernel"]; a part that is itself a weight has no leaf."""
    part, _, leaf = path.rpartition("/")
    return (part, [leaf]) if leaf in LEAVES else (path, [])


def _looked_up(names, part):
    number = re.search(r"/layer_(\d+)/", part)
    if number is None:
        return names[part]
    return names[part.replace(number[0], "/layer_{}/")].format(number[1])
