"""The signatures of exported pipelines: (dtype and shape, meaning) by name.

B sentences, T tokens of the longest answer, S tokens of the longest sentence, V tokens of the vocabulary; K labels, D
numbers of a vector, G gaps of the text with the most gaps. The inputs of a classifier are those of its kind of input.
"""

from keras_attention.inputs.text import TextInput

TEXT = {
    "inputs": {"texts": ("string (B)", "sentences in UTF-8, any number of any length")},
    "outputs": {
        "text": ("string (B)", "the best answer; empty for an empty sentence"),
        "score": ("float32 (B)", "what the search maximizes: log probability with length and coverage penalties"),
        "log_prob": ("float32 (B)", "summed natural log probability of the tokens"),
        "tokens": ("string (B, T)", 'the pieces of the answer, the last "</s>" unless it was cut; then ""'),
        "source_tokens": ("string (B, S)", 'the pieces of the source, the last "</s>"; then ""'),
        "truncated": ("bool (B)", "whether the sentence exceeded the model's limit and was cut"),
        "attention": ("float32 (B, T, S)", "attention weights of each token to each source token; 0 at padding"),
    },
}

_TEXTS = TextInput().signature()
_TRUNCATED = {"truncated": ("bool (B)", "whether the text exceeded the model's limit and was cut")}
VECTORS = {"inputs": _TEXTS, "outputs": {"vectors": ("float32 (B, D)", "the vector of each text"), **_TRUNCATED}}
FILLINGS = {
    "inputs": {"texts": ("string (B)", 'texts in UTF-8 with "[MASK]" in place of each missing word')},
    "outputs": {
        "fillings": (
            "string (B, 5)",
            "the filled texts, best first; empty if the text has no gap, too many, or a gap beyond the model's limit",
        ),
        "words": ("string (B, 5, G)", "the words for its gaps"),
        "scores": ("float32 (B, 5)", "joint probability of the words"),
        **_TRUNCATED,
    },
}

PIECES = {
    "inputs": {"source": ("lists of strings", 'the pieces of each sentence, the last "</s>"')},
    "outputs": {"hypotheses": ("lists of strings", "the pieces of the translations, best first")},
}

CONTINUED = {
    "inputs": {
        "texts": ("string (B)", "prompts in UTF-8, any number of any length; an empty one starts a new text"),
        "max_tokens": ("int32 ()", "maximum number of new tokens"),
        "temperature": ("float32 ()", "0: always the most probable token; higher: more random"),
        "seed": ("int32 ()", "the same seed gives the same answer"),
    },
    "outputs": {
        "text": ("string (B)", "the continuation of each prompt"),
        "log_prob": ("float32 (B)", "summed natural log probability of its tokens"),
        "truncated": ("bool (B)", "whether the prompt was too long, and only its end was read"),
    },
}


def classes(task, kind):
    """The signature of a classifier; `task`: see `catalog.classification.TASK`, `kind`: its kind of input."""
    cut = {} if kind.is_file else _TRUNCATED
    if task["kind"] == "regression":
        return {"inputs": kind.signature(), "outputs": {"value": ("float32 (B)", "the number"), **cut}}
    several = f"the labels that reach their thresholds, with {task['separator']!r} between them"
    label = several if task["kind"] == "multilabel" else "the label; empty if none is probable enough"
    outputs = {
        "label": ("string (B)", label),
        "labels": ("string (B, K)", "all labels, the most probable first"),
        "probabilities": ("float32 (B, K)", "those of `labels`"),
        **cut,
    }
    return {"inputs": kind.signature(), "outputs": outputs}


def sequence_signature(batch="B", tokens="T", segments=True, output=("K", "logits")):
    """The signature of a BERT with token ids as input; the arguments are its sizes, numbers if they are fixed."""
    shape, meaning = output
    inputs = {"token_ids": (f"int32 ({batch}, {tokens})", "a text: [CLS], its pieces, [SEP], then padding (0)")}
    if segments:
        inputs["segment_ids"] = (f"int32 ({batch}, {tokens})", "1 at the second text of a pair and its [SEP], else 0")
    return {"inputs": inputs, "outputs": {"output": (f"float32 ({batch}, {shape})".replace("T", str(tokens)), meaning)}}


def token_signature(batch="B", sources="S", targets="T"):
    """The signature of a network with token ids as input; the arguments are its sizes, numbers if they are fixed."""
    return {
        "inputs": {
            "source_ids": (f"int32 ({batch}, {sources})", "a sentence: its tokens, END (3), then padding (0)"),
            "target_ids": (f"int32 ({batch}, {targets})", "the target so far: START (2), tokens, padding (0)"),
        },
        "outputs": {"logits": (f"float32 ({batch}, {targets}, V)", "of the token that follows, before the softmax")},
    }


def listing(signature):
    """A signature as lines of text.

    Args:
        signature: dict {"inputs": dict, "outputs": dict} like TEXT.

    Returns:
        str.
    """
    lines = []
    for side, tensors in signature.items():
        lines.append(side)
        lines += [f"  {name:13}  {kind:17}  {meaning}" for name, (kind, meaning) in tensors.items()]
    return "\n".join(lines)
