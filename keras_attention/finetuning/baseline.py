"""What counting words reaches on the same rows: the score that a network has to beat."""

from keras_attention.finetuning.measures import Predictions, scores

BETWEEN = " \N{SYMBOL FOR UNIT SEPARATOR} "  # between the two texts of a pair


def bag_of_words_scores(train, test, task):
    """Trains TF-IDF with logistic regression (ridge regression for numbers) and scores it.

    Args:
        train, test: Examples.
        task: Task.

    Returns:
        dict, see `measures.scores`.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    # Single letters and signs count as words too, so that no text is without any.
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=200_000, token_pattern=r"\w+|[^\w\s]")
    regression = LogisticRegression(C=10.0, max_iter=1000)
    judges = {"regression": Ridge(), "multilabel": OneVsRestClassifier(regression)}
    model = make_pipeline(words, judges.get(task.kind, regression))
    model.fit(_joined(train), train.targets(task))
    chosen = model.predict(_joined(test))
    return scores(test.targets(task), Predictions(chosen, chosen), task)


def _joined(examples):
    if examples.texts_b is None:
        return examples.texts
    return [first + BETWEEN + second for first, second in zip(examples.texts, examples.texts_b, strict=True)]
