"""The bag-of-words baseline: the score that a network has to beat on the same rows."""

from keras_attention.evaluation.classification_scores import Predictions, best_thresholds, scores

BETWEEN = " \N{SYMBOL FOR UNIT SEPARATOR} "  # between the two texts of a pair


def bag_of_words_scores(train, validation, test, task):
    """Trains TF-IDF with logistic regression (ridge regression for numbers) and scores it.

    Args:
        train, validation, test: Examples; `validation` chooses the thresholds of a multilabel task.
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
    if task.kind == "multilabel":
        thresholds = best_thresholds(validation.targets(task), model.predict_proba(_joined(validation)))
        chosen = model.predict_proba(_joined(test)) >= thresholds
    else:
        chosen = model.predict(_joined(test))
    return scores(test.targets(task), Predictions(chosen, chosen), task)


def _joined(examples):
    if examples.texts_b is None:
        return examples.texts
    return [first + BETWEEN + second for first, second in zip(examples.texts, examples.texts_b, strict=True)]
