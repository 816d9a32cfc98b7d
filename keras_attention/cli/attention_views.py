"""Attention weights as files: the page of `keras-attention attention`, and the heat maps of `translate --attention`."""

import sys
from pathlib import Path

from keras_attention.cli.io.search_options import search_options
from keras_attention.cli.io.terminal import compiling_note, json_text, load
from keras_attention.cli.io.text_files import check_no_file_names
from keras_attention.support.atomic_files import claim_place, whole_files
from keras_attention.support.errors import UserError
from keras_attention.visualize.pages import check_page_path, weights_of_words, words_of
from keras_attention.zoo.registry import no_model, open_entry

FLAGS = {"beam_size": "--beam"}  # options whose flag has another name


def attention(arguments):
    """Checks the output path, loads the model, and writes the attention page."""
    if arguments.model is None:
        raise no_model()
    check_no_file_names([arguments.text])
    entry = open_entry(arguments.model)
    path = check_page_path(arguments.out)
    claim_place(path)
    pipeline = load(entry)
    options = {"target": arguments.target, "n_best": arguments.n_best if arguments.n_best != 1 else None}
    options |= search_options(arguments)
    options = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if name not in pipeline.view_options:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise UserError(f"{flag} does not work with {arguments.model}. Leave it out.")
    view = pipeline.attention_view(*pipeline.sides(arguments.text), **options)
    view.save(path)
    compiling_note.clear()
    report = {"model": arguments.model, "page": str(path), "bytes": path.stat().st_size}
    print(json_text(report) if arguments.json else f"{path}: {report['bytes'] / 1e3:.0f} kB")


def check_heatmap_options(arguments):
    """Raises UserError unless the options of --attention come with it, and the picture can be written."""
    if not arguments.attention and (arguments.pieces or arguments.layers is not None or arguments.heads is not None):
        raise UserError("--layers, --heads and --pieces need --attention FILE.")
    if arguments.attention:
        from keras_attention.visualize.figures import check_figure_path

        claim_place(check_figure_path(arguments.attention))


def draw_heatmaps(arguments, answers, window):
    """Draws the heat map of each best translation, or of its layers and heads.

    Several pictures are numbered, and those of a window are saved together.
    """
    path = Path(arguments.attention)
    if window.total == 1:
        _draw_heatmap(arguments, answers[0][0], path)
        return
    with whole_files(path) as folder:
        for number, (best, *_) in enumerate(answers, start=window.first):
            _draw_heatmap(arguments, best, folder / f"{path.stem}-{number}{path.suffix}")


def _draw_heatmap(arguments, best, path):
    from keras_attention.visualize.figures import attention_heatmap, heads_heatmap

    if not best.tokens:
        print(f"keras-attention: {path.name}: not drawn, because the translation has no tokens", file=sys.stderr)
        return
    mean = arguments.layers is None and arguments.heads is None
    weights, source, target = best.attention if mean else best.heads, best.source_tokens, best.tokens
    if not arguments.pieces:
        weights, source, target = weights_of_words(weights, target, source), words_of(source), words_of(target)
    if mean:
        attention_heatmap(weights, source, target, path)
    else:
        chosen = {"layers": arguments.layers or None, "heads": arguments.heads or None}
        heads_heatmap(weights, source, target, path, **chosen)
