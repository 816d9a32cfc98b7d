"""How good classifiers are against the number of labels that they were trained on."""

from matplotlib.figure import Figure

from keras_attention.errors import UserError
from keras_attention.visualize.figure_file import check_figure_path, save_figure
from keras_attention.visualize.fonts import drawable

LINES = ("-", "--", "-.", ":")


def score_by_labels_plot(series, path, measure, title=None):
    """Draws one line per system: its score (0 to 100) over the number of labels, which is drawn by its logarithm.

    Args:
        series: dict from a system's name to a list of pairs (labels, list of scores, one for each seed); the line goes
            through the means, and bars reach from the lowest to the highest.
        path: str or Path ending with .png, .svg or .pdf; written beside and renamed.
        measure: str, what the score is.
        title: str or None.

    Raises:
        UserError: if there is nothing to draw or the picture cannot be written.
    """
    check_figure_path(path)
    if not any(series.values()):
        raise UserError("There is nothing to draw: no system has a score.")
    (*names, measure, title), families = drawable([*map(str, series), measure, title or ""])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for position, (name, points) in enumerate(zip(names, series.values(), strict=True)):
        labels = [count for count, _ in points]
        means = [sum(scores) / len(scores) for _, scores in points]
        below = [mean - min(scores) for mean, (_, scores) in zip(means, points, strict=True)]
        above = [max(scores) - mean for mean, (_, scores) in zip(means, points, strict=True)]
        line = LINES[position % len(LINES)]
        axes.errorbar(labels, means, [below, above], linestyle=line, marker="o", capsize=3, label=name)
    axes.set_xscale("log")
    counts = sorted({count for points in series.values() for count, _ in points})
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("labels to learn from")
    axes.set_ylabel(measure, family=families)
    axes.grid(alpha=0.3)
    axes.legend(prop={"family": families}, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    if title:
        axes.set_title(title, family=families, parse_math=False)
    save_figure(figure, path)
