"""Answers of the API: request and model in, JSON types out."""


def translate(pipeline, request):
    """The best translations of each text, with source and target tokens."""
    shown = ("text", "score", "log_prob", "low_score", "tokens")
    return {
        "answers": [
            {
                "translations": [{name: getattr(one, name) for name in shown} for one in hypotheses],
                "source_tokens": hypotheses[0].source_tokens,
                "truncated": hypotheses[0].truncated,
            }
            for hypotheses in pipeline.hypotheses(request.texts, n_best=request.n_best)
        ]
    }


def classify(pipeline, request):
    """The label of each text and the probabilities of the labels."""
    found = pipeline.classify(request.texts, request.texts_b, threshold=request.threshold, return_scores=True)
    return {
        "answers": [
            {
                "label": answer.label,
                "probabilities": dict(list(answer.probabilities.items())[: request.top]),
                "truncated": answer.truncated,
            }
            for answer in found
        ]
    }


def fill_mask(pipeline, request):
    """The most probable words for the masks of each text."""
    shown = ("text", "words", "score", "probabilities")
    return {
        "answers": [
            {
                "fillings": [{name: getattr(one, name) for name in shown} for one in fillings],
                "truncated": fillings[0].truncated,
            }
            for fillings in pipeline.fill_mask(request.texts, top_k=request.top)
        ]
    }


def attention(pipeline, request):
    """The attention weights as an `AttentionView`."""
    if hasattr(pipeline, "hypotheses"):
        return pipeline.attention_view(request.text, target=request.target, n_best=request.n_best)
    second = () if request.text_b is None else (request.text_b,)
    return pipeline.attention_view(request.text, *second)
