"""After training: calibrates the probabilities, and blends in a bag of words if it is as good as the network."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation import classification_scores as measures
from keras_attention.evaluation.bag_of_words import BY_LETTERS, BY_WORDS, Blend, best_weight, fit_bag_of_words
from keras_attention.evaluation.classification_scores import has_skewed_classes, score_of, temperature
from keras_attention.finetuning.contrastive import CONTRASTIVE, ON_LABELS
from keras_attention.finetuning.label_training import filled_in
from keras_attention.finetuning.linear_probe import fit_linear
from keras_attention.finetuning.lora import merge_adapters
from keras_attention.finetuning.settings import AUTO
from keras_attention.pipelines.base import make_pipeline
from keras_attention.training.devices import in_float32
from keras_attention.training.history import TrainResult


class Finetuned(NamedTuple):
    """The result of fine-tuning.

    Attributes:
        classifier: Classifier.
        task: Task.
        train, validation: Examples, after the split.
        result: TrainResult.
        settings: dict, the FinetuneSettings with their defaults filled in.
        words: BagOfWords, trained on the same rows; of words or of letters, whichever is better on the validation rows.
        blend_reason: str, the reason for blending with it, or None.
        candidates: list of [name, main score on the validation rows, whether it is what is saved].
    """

    classifier: Any
    task: Task
    train: object
    validation: object
    result: TrainResult
    settings: dict
    words: object = None
    blend_reason: str | None = None
    candidates: list | None = None


def finish(prepared, result, settings):
    """Calibrates a trained model, and blends it with a bag of words if that is as good.

    Args:
        prepared: Prepared, whose model is trained.
        result: TrainResult.
        settings: FinetuneSettings.

    Returns:
        Finetuned.
    """
    rows, task, train = prepared.rows, prepared.rows.task, prepared.rows.train
    if prepared.classifier.input.is_file:
        bags = {prepared.classifier.input.simple_model: fit_feature_model(prepared)}
    else:
        bags = fit_bags(train, task, rows.num_labels, prepared.letters, settings.quick)
    rule = where_as_good if settings.blend == "auto" else None
    candidates, name = choose_network(prepared, bags, rule)
    classifier = _final_network(prepared, settings)
    logits = classifier.logits(prepared.validation_sequences)
    reason = calibrate(classifier, logits, bags[name], rows, rule and partial(rule, name=name))
    words = bags[name] if reason else best_bag(bags, rows)
    if settings.min_probability == AUTO:
        final = classifier.logits(prepared.validation_sequences)
        final = classifier.blended(final, rows.validation.texts, rows.validation.texts_b)
        classifier.task["min_probability"] = min_probability_of(final, rows.validation_targets)
    filled = vars(filled_in(settings, classifier.model, len(prepared.sequences)))
    filled = {**filled, "contrastive": CONTRASTIVE in prepared.stages}
    if ON_LABELS not in prepared.stages:
        filled["epochs"] = None
    return Finetuned(classifier, task, train, rows.validation, result, filled, words, reason, candidates)


TUNED, LINEAR, WORDS = "fine-tuned network", "logistic regression on the vectors", "bag of words"
STATIC, LETTERS = "logistic regression on static vectors", "bag of letters"


def fit_bags(train, task, num_labels, letters=False, quick=False):
    """A BagOfWords of words and, with `letters`, one of n-grams of letters: dict by WORDS and LETTERS."""
    units = {WORDS: BY_WORDS, **({LETTERS: BY_LETTERS} if letters else {})}
    given = train.texts, train.texts_b, train.targets(task), task.kind, num_labels
    return {name: fit_bag_of_words(*given, quick=quick, units=each) for name, each in units.items()}


def best_bag(bags, rows):
    """The one of `fit_bags` with the best main score on the validation rows of TrainingRows."""
    if len(bags) == 1:
        return next(iter(bags.values()))
    given = rows.validation.texts, rows.validation.texts_b
    return max(bags.values(), key=lambda bag: score_of(bag.logits(*given), rows.validation_targets, rows.task)[1])


def choose_network(prepared, bags, rule):
    """Gives the network the weights of the linear start if these are better on the validation rows than the trained.

    Each network counts as it would be saved: with the bag of words where `rule` blends it in. So what is saved is not
    below the linear start, nor below a bag of words.

    Args:
        prepared: Prepared, whose model is trained.
        bags: dict from name to BagOfWords or another baseline, see `fit_bags`.
        rule: see `calibrate`.

    Returns:
        List of [name, main score on the validation rows, whether it is saved], see `Finetuned`; and the name of the bag
        that is blended in, if one is.
    """
    rows, classifier = prepared.rows, prepared.classifier
    name = TUNED if prepared.stages else STATIC
    logits = {name: classifier.logits(prepared.validation_sequences) * rows.spread + rows.center}
    if prepared.linear_weights is not None:
        trained = classifier.model.get_weights()
        classifier.model.set_weights(prepared.linear_weights)
        logits[LINEAR] = classifier.logits(prepared.validation_sequences) * rows.spread + rows.center
    texts = rows.validation
    of_bags = {name: _calibrated(bag.logits(texts.texts, texts.texts_b), rows)[0] for name, bag in bags.items()}

    def score(values):
        return score_of(values, rows.validation_targets, rows.task)[1]

    candidates, best, highest = [], None, -np.inf
    for name, values in logits.items():
        values, _ = _calibrated(values, rows)
        candidates.append([name, score(values)])
        for bag, its_logits in of_bags.items():
            weight, reason = rule(values, its_logits, rows) if rule else (0.0, None)
            saved, both = name, values
            if reason:
                saved = bag if weight == 1.0 else f"{name} and {bag}, {100 * weight:.0f} %"
                both = (1 - weight) * values + weight * its_logits
                if weight < 1.0:
                    candidates.append([saved, score(both)])
            if score(both) > highest:
                best, chosen, highest = (saved, bag), name, score(both)
    if rule:
        candidates += [[bag, score(its_logits)] for bag, its_logits in of_bags.items()]
    if LINEAR in logits and chosen == TUNED:
        classifier.model.set_weights(trained)
    return [[name, value, name == best[0]] for name, value in candidates], best[1]


def _final_network(prepared, settings):
    """The classifier without adapters, in float32 and with the numbers of a regression as they were."""
    classifier, rows = prepared.classifier, prepared.rows
    merge_adapters(classifier.model)
    _rescale_output(classifier.model.head[-1], rows.spread, rows.center)
    if settings.mixed_precision:  # scored in float32, as it will be loaded
        model = in_float32(classifier.model)
        classifier = make_pipeline(model, classifier.tokenizers, classifier.config_keys())
    return classifier


def fit_feature_model(prepared):
    """The baseline for inputs without words: logistic or ridge regression on the features of their kind.

    Args:
        prepared: Prepared.

    Returns:
        `pipelines.input_classifier.FeatureModel`.
    """
    rows, classifier = prepared.rows, prepared.classifier
    known = classifier.feature_vectors(prepared.sequences)
    held = classifier.feature_vectors([arrays for (arrays,) in prepared.validation_sequences])
    targets = rows.standardized(rows.validation_targets)
    linear = fit_linear(known, rows.targets, rows.task.kind, rows.num_labels, held, targets)
    kernel, bias = linear.kernel * rows.spread, linear.bias * rows.spread + rows.center
    return classifier.feature_model(kernel.astype("float32"), bias.astype("float32"))


def calibrate(classifier, logits, words, held, rule=None):
    """Determines the temperature, the bag of words and the thresholds of a classifier on held-out rows.

    Args:
        classifier: Classifier, changed.
        logits: float array (N, K), of its network for these rows.
        words: BagOfWords.
        held: TrainingRows, or another object with `task`, `validation` and `validation_targets`.
        rule: callable(logits, logits of the words, held) -> (weight of the words, reason for blending them in, or
            None); without a rule, they are not blended in.

    Returns:
        str, the reason for blending the words in, or None.
    """
    texts, reason = held.validation, None
    logits, cooled = _calibrated(logits, held)
    _rescale_output(classifier.model.head[-1], 1 / cooled)
    if rule:
        word_logits, cooled = _calibrated(words.logits(texts.texts, texts.texts_b), held)
        weight, reason = rule(logits, word_logits, held)
        if reason:
            logits, again = _calibrated((1 - weight) * logits + weight * word_logits, held)
            _rescale_output(classifier.model.head[-1], 1 / again)
            classifier.blend = Blend(words.scaled(1 / (cooled * again)).stored(), weight)
    shift = prior_shift(logits, held)
    if shift is not None:
        output = classifier.model.head[-1]
        output.bias.assign(output.bias + shift)
        if classifier.blend:
            words, weight = classifier.blend
            classifier.blend = Blend(words._replace(bias=words.bias + shift), weight)
    if held.task.kind == "multilabel":
        probabilities = measures.predictions(logits, held.task).values
        classifier.task["threshold"] = measures.best_thresholds(held.validation_targets, probabilities)
    return reason


SHIFTS = (0.25, 0.5, 0.75, 1.0)
LEAST_GAIN = 1.0  # points of the main score


def prior_shift(logits, held):
    """What is added to the logits of skewed classes so that rare ones are answered more often, or None for nothing.

        shift = -t log(share of the class),     t in [0, 1]

    t = 1 makes of probabilities those of a table in which all classes are equally frequent. The validation rows
    determine t by the main score, which must gain a point at least.

    Args:
        logits: float array (N, K), calibrated.
        held: see `calibrate`.

    Returns:
        float32 array (K,) or None.

    Source: Menon et al. (2021), "Long-tail learning via logit adjustment", section 4.1, post-hoc,
    https://arxiv.org/abs/2007.07314.
    """
    task, targets = held.task, held.validation_targets
    if not has_skewed_classes(task):
        return None
    counts = np.bincount(targets, minlength=logits.shape[1]) + 1.0
    away = -np.log(counts / counts.sum())
    shifted_scores = [score_of(logits + t * away, targets, task)[1] for t in (0.0, *SHIFTS)]
    best = int(np.argmax(shifted_scores))
    return (
        (SHIFTS[best - 1] * away).astype("float32") if shifted_scores[best] >= shifted_scores[0] + LEAST_GAIN else None
    )


KEPT = 0.95  # share of the right answers


def min_probability_of(logits, targets):
    """The largest threshold that a share KEPT of the right answers reaches: float in [0, 1), 0 without right answers.

    Texts of no class get no high probability from a calibrated model, as a rule; this is the usual point at which
    detectors of such texts are compared.

    Args:
        logits: float array (N, K), calibrated, of rows that the model was not trained on.
        targets: int array (N,).

    Source: Hendrycks & Gimpel (2017), "A Baseline for Detecting Misclassified and Out-of-Distribution Examples",
    https://arxiv.org/abs/1610.02136; at 95 % of the right answers as in Liang et al. (2018),
    https://arxiv.org/abs/1706.02690.
    """
    logits = np.asarray(logits, "float64")
    values = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    right = np.sort(values.max(axis=1)[values.argmax(axis=1) == targets])
    if not len(right):
        return 0.0
    return float(np.floor(1e4 * right[int((1 - KEPT) * len(right))]) / 1e4)


def _calibrated(logits, held):
    """Logits divided by the best temperature for the validation rows, and that temperature; 1 for a regression."""
    kind = held.task.kind
    cooled = 1.0 if kind == "regression" else temperature(logits, held.validation_targets, kind)
    return logits / cooled, cooled


def where_as_good(logits, word_logits, held, name=WORDS):
    """The best weight of the words on the validation rows, and the reason for blending them in, or None.

    The words are blended in if their score is at most one standard error below the network's, and the blend's score is
    not below the network's. If the words alone are better than the network and the blend, their weight is 1, so that no
    model is worse than its bag of words.
    """
    targets, task = held.validation_targets, held.task
    weight = best_weight(logits, word_logits, targets, task.kind)
    (measure, network), (_, alone), (_, both) = (
        score_of(some_logits, targets, task)
        for some_logits in (logits, word_logits, (1 - weight) * logits + weight * word_logits)
    )
    weight, both = (1.0, alone) if alone > max(network, both) else (weight, both)
    share = min(max(network / 100, 0.0), 1.0)
    margin = 100 * float(np.sqrt(share * (1 - share) / len(targets)))
    skewed = has_skewed_classes(task)  # then words that are worse alone may still help
    if weight == 0 or both < network or (alone < network - margin and not (skewed and both > network)):
        return weight, None
    found = f"On the validation rows, a {name} reaches {measure} {alone:.1f} and the network {network:.1f}. The model "
    if weight == 1:
        return weight, f"{found}answers with the {name} alone; the network has no part in it."
    share = f"a weight of {100 * weight:.0f} % for the {name}"
    return weight, f"{found}averages both, with {share}, and reaches {both:.1f}."


def _rescale_output(dense, spread, center=0.0):
    """Changes a dense layer that predicts (number - center) / spread so that it predicts the number itself."""
    dense.kernel.assign(dense.kernel * spread)
    dense.bias.assign(dense.bias * spread + center)
