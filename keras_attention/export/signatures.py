"""Signatures of exported models: (dtype and shape, meaning) by name. Does not import TensorFlow.

B sentences, T tokens of the longest answer, S tokens of the longest sentence, V entries of the vocabulary.
"""

TEXT = {
    "inputs": {"texts": ("string (B)", "sentences in UTF-8, any number of any length")},
    "outputs": {
        "text": ("string (B)", "the best answer; empty for an empty sentence"),
        "score": ("float32 (B)", "what the search ranks by: the log probability after its penalties"),
        "log_prob": ("float32 (B)", "summed natural log probability of the tokens"),
        "tokens": ("string (B, T)", 'the pieces of the answer, the last "</s>" unless it was cut; then ""'),
        "source_tokens": ("string (B, S)", 'the pieces that were read, the last "</s>"; then ""'),
        "truncated": ("bool (B)", "whether the sentence was longer than the model reads, and was cut"),
        "attention": ("float32 (B, T, S)", "how much each token looked at each source token; 0 at padding"),
    },
}


def token_signature(batch="B", sources="S", targets="T"):
    """The signature of a network with token ids as input; the arguments are its sizes, numbers if they are fixed."""
    return {
        "inputs": {
            "source_ids": (f"int32 ({batch}, {sources})", "a sentence: its tokens, END (3), then padding (0)"),
            "target_ids": (f"int32 ({batch}, {targets})", "what is written so far: START (2), tokens, padding (0)"),
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
