"""Translation quality against the length of the source."""

from matplotlib.figure import Figure

from keras_attention.errors import UserError
from keras_attention.visualize.figure_file import check_figure_path, save_figure
from keras_attention.visualize.fonts import drawable

LINES = ("-", "--", "-.", ":")


def bleu_by_length_plot(series, path, title=None):
    """Draws one line per system: BLEU (0 to 100) of the sentences in each range of source lengths, in words.

    Args:
        series: dict from a system's name to a list of pairs (bucket label, BLEU); every system has the same labels
            in the same order.
        path: str or Path ending with .png, .svg or .pdf; written beside and renamed.
        title: str or None.

    Raises:
        ValueError: if the systems' labels differ.
        UserError: if there is nothing to draw or the picture cannot be written.

    Source: Bahdanau, Cho & Bengio (2015), figure 2. Buckets of lengths in place of a moving average.
    """
    check_figure_path(path)
    labels = [[str(label) for label, _ in points] for points in series.values()]
    if not labels or not labels[0]:
        raise UserError("There is nothing to draw: no system has a BLEU score.")
    if any(other != labels[0] for other in labels):
        raise ValueError(f"Every system must have the same buckets. Received: {labels}")
    (*names, title), families = drawable([*map(str, series), title or ""])
    figure = Figure(figsize=(6.4, 4.0))
    axes = figure.add_subplot()
    for position, (name, points) in enumerate(zip(names, series.values(), strict=True)):
        scores = [score for _, score in points]
        axes.plot(range(len(scores)), scores, LINES[position % len(LINES)], marker="o", label=name)
    axes.set_xticks(range(len(labels[0])), labels[0])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("source length (words)")
    axes.set_ylabel("BLEU")
    axes.grid(alpha=0.3)
    # Below the axes, where no line runs through it.
    axes.legend(prop={"family": families}, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)
    if title:
        axes.set_title(title, family=families, parse_math=False)
    save_figure(figure, path)
