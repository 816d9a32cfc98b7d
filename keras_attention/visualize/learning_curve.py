"""The loss of a training and of its validations."""

from matplotlib.figure import Figure

from keras_attention.errors import UserError
from keras_attention.visualize.figure_file import check_figure_path, save_figure

LINES = {"loss": "-", "val_loss": "o--"}
LABELS = {"loss": "training, mean of an epoch", "val_loss": "validation, at its end"}


def learning_curve_plot(history, path):
    """Draws the losses of the epochs against the updates made at their end.

    Args:
        history: list of dict, one for each epoch, with "steps" (int, updates so far), "loss" and, where there was a
            validation, "val_loss" (float, nats a token); see `training.trainer.TrainResult`.
        path: str or Path ending with .png, .svg or .pdf; written beside and renamed.

    Raises:
        UserError: if there is no epoch, or the picture cannot be written.
    """
    check_figure_path(path)
    if not history:
        raise UserError("There is nothing to draw: no epoch has ended.")
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for name, line in LINES.items():
        points = [(entry["steps"], entry[name]) for entry in history if name in entry]
        if points:
            axes.plot(*zip(*points, strict=True), line, label=LABELS[name])
    axes.set_xlabel("updates")
    axes.set_ylabel("loss (nats a token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    save_figure(figure, path)
