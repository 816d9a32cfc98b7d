"""Writes a trained classifier of pictures, sounds or series as an entry, with its scores and its card."""

from importlib.metadata import version
from types import SimpleNamespace

import numpy as np

from keras_attention.data.images.image_batches import MEAN, STD, as_values
from keras_attention.data.images.labelled_images import ImageData, LabelledImages
from keras_attention.data.series.dynamic_time_warping import nearest_labels
from keras_attention.evaluation.classification_scores import per_class, predictions, scores
from keras_attention.inputs.image import ImageInput
from keras_attention.pipelines.input_classifier import InputClassifier
from keras_attention.visualize.score_plots import confusion_matrix_plot
from keras_attention.zoo.entry_io import write_entry

CLASS_COLUMNS = ["class", "precision", "recall", "F1", "examples"]
MOST_SAMPLES = 10
MOST_IMAGES = 10_000  # of training for the baseline; more take minutes and change little
ROWS = 500  # pictures that are classified at a time
LIMITS = [
    "The model knows only these labels and labels any input, even one of something else.",
    "Inputs are expected to be like those of the training data: pictures in size, background and framing, sounds in "
    "noise and distance, series in length and beginning.",
]
UNITS = {"image": "pixels", "sound": "frames and bands", "series": "steps"}
MOST_CELLS = 1 << 31  # of dynamic time warping, for a baseline of seconds


def image_classifier(model, data: ImageData) -> InputClassifier:
    """The pipeline of a network that reads the values of `data.images.image_batches.as_values`.

    Args:
        model: built PatchClassifier.
        data: ImageData. One picture of each label, of up to `MOST_SAMPLES`, becomes an example.
    """
    held = data.test or data.validation
    kind = data.kind or ImageInput(model.input_size, mean=[MEAN], std=[STD])
    read = held.pixels if data.held is None else data.held
    kinds = "binary" if len(data.label_names) == 2 else "multiclass"
    task = {"kind": kinds, "label_names": list(data.label_names), "separator": None, "threshold": 0.5, "pair": False}
    first = [int(np.argmax(held.labels == label)) for label in range(len(data.label_names)) if label in held.labels]
    return InputClassifier(model, kind, task, samples=[read[row] for row in first[:MOST_SAMPLES]])


def held_logits(classifier: InputClassifier, images: LabelledImages) -> np.ndarray:
    """The logits (N, K) of all images, from the compiled network."""
    logits_of_rows = []
    for first in range(0, len(images), ROWS):
        arrays = [{"values": values} for values in as_values(images.pixels[first : first + ROWS])]
        logits_of_rows += [logits for (logits,) in classifier.compiled.run(arrays)]
    return np.stack(logits_of_rows)


def fit_output_layer(model, images: LabelledImages) -> None:
    """Gives the output layer of a pre-trained PatchClassifier the weights of a logistic regression on its vectors.

    Args:
        model: built PatchClassifier; changed.
        images: LabelledImages.
    """
    import tensorflow as tf
    from sklearn.linear_model import LogisticRegression

    pooled = tf.function(lambda values: model.pooled(values, training=False))
    values = as_values(images.pixels)
    vectors = np.concatenate([pooled(values[first : first + ROWS]).numpy() for first in range(0, len(values), ROWS)])
    center, spread = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    regression = LogisticRegression(C=0.1, max_iter=500).fit((vectors - center) / spread, images.labels)
    kernel, bias = (regression.coef_.T / spread[:, None]), regression.intercept_
    bias = bias - center @ kernel
    if kernel.shape[1] == 1:  # of two labels, scikit-learn has one logit
        kernel, bias = np.hstack([np.zeros_like(kernel), kernel]), np.array([0.0, bias[0]])
    model.output_dense.set_weights([kernel.astype("float32"), bias.astype("float32")])


def scores_of(classifier: InputClassifier, images: LabelledImages) -> tuple[dict, list, np.ndarray]:
    """Scores by name, rows of `CLASS_COLUMNS`, and the confusion matrix (K, K), true by predicted labels."""
    task = SimpleNamespace(**classifier.task)
    predicted = predictions(held_logits(classifier, images), task)
    confusion = np.zeros((len(task.label_names),) * 2, int)
    np.add.at(confusion, (images.labels, predicted.chosen), 1)
    return scores(images.labels, predicted, task), per_class(images.labels, predicted, task), confusion


def pixel_baseline(pixels: np.ndarray, labels: np.ndarray, test_pixels: np.ndarray) -> np.ndarray:
    """The baseline that a person would try first: predicts labels by a logistic regression on the pixels, from 0 to 1.

    Args:
        pixels: uint8 array (N, height, width, channels), for training; of more than `MOST_IMAGES`, the first ones.
        labels: int array (N,).
        test_pixels: uint8 array (M, height, width, channels).

    Returns:
        int array (M,), the predicted labels.
    """
    from sklearn.linear_model import LogisticRegression

    known, asked = (part.reshape(len(part), -1).astype("float32") / 255 for part in (pixels[:MOST_IMAGES], test_pixels))
    model = LogisticRegression(C=0.1 if known.shape[1] > 100 else 1.0, max_iter=200).fit(known, labels[:MOST_IMAGES])
    return model.predict(asked)


def baselines(data: ImageData, kind) -> dict[str, tuple[int, np.ndarray]]:
    """What a person would try first: dict from name to the number of training examples and the predicted labels."""
    held = data.test or data.validation
    known = min(len(data.train), MOST_IMAGES)
    if kind.name == "image":
        predicted = pixel_baseline(data.train.pixels, data.train.labels, held.pixels)
        return {"logistic regression on pixels": (known, predicted)}
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, asked = data.train.pixels[:known], held.pixels
    features = [np.asarray(kind.features(values)) for values in (train, asked)]
    simple = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    simple.fit(features[0], data.train.labels[:known])
    predictions_of = {kind.simple_model: (known, simple.predict(features[1]))}
    if kind.name == "series" and len(train) * len(asked) * len(train[0]) ** 2 <= MOST_CELLS:
        nearest = nearest_labels(train, data.train.labels[:known].tolist(), asked)
        predictions_of["1-nearest neighbour with dynamic time warping"] = (known, np.array(nearest))
    return predictions_of


def write_image_classifier(folder, classifier, data, *, settings, result, facts, overwrite=False):
    """Scores a classifier on the test pictures and writes its entry.

    Args:
        folder: str or Path.
        classifier: InputClassifier.
        data: ImageData; without test pictures, the scores are those of the validation pictures.
        settings: dict of JSON types, the recipe's configuration.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        Dict of scores by name.
    """
    held, part = (data.test, "test") if data.test is not None else (data.validation, "validation")
    measured, classes, confusion = scores_of(classifier, held)
    compared = [["this model", len(data.train), measured["accuracy"]]]
    compared += [
        [name, known, 100 * float(np.mean(predicted == held.labels))]
        for name, (known, predicted) in baselines(data, classifier.kind).items()
    ]
    plural = "pictures" if classifier.kind.name == "image" else classifier.kind.plural
    name = f"{data.origin['name'].split(' (')[0]}, {part}, {len(held):,} {plural}"
    picture = {"file": "confusion.png", "caption": f"Confusion matrix, {name}"}
    labels = list(data.label_names)
    network = classifier.model
    description = f"Classifies {plural}: {', '.join(labels[:10])}{', ...' * (len(labels) > 10)}. "
    metrics = {
        "description": description + f"Transformer with {network.num_layers} layers over patches of "
        f"{' x '.join(map(str, network.patch_size))} {UNITS[classifier.kind.name]}, trained on "
        f"{len(data.train):,} {plural}.",
        "data": [data.origin],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": network.count_params(),
        "scores": [
            {"set": name, "metric": metric, "value": value, "signature": f"scikit-learn {version('scikit-learn')}"}
            for metric, value in measured.items()
        ],
        "tables": [
            {"title": "Compared with a simple model", "columns": ["", "trained on", "accuracy"], "rows": compared},
            {"title": f"By class, {part}", "columns": CLASS_COLUMNS, "rows": classes},
        ],
        "pictures": [picture],
        "limits": LIMITS,
        "examples": classifier.examples(),
        "training": {**settings, "history": result.history},
    }
    draw = [lambda place: confusion_matrix_plot(confusion, labels, place / picture["file"])]
    options = {
        "about": classifier.config_keys(),
        "extra_files": [*classifier.extra_files, *draw],
        "overwrite": overwrite,
    }
    write_entry(folder, network, {}, metrics=metrics, **options)
    return measured
