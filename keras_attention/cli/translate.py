"""`keras-attention translate`."""

import sys
from functools import partial
from pathlib import Path

from keras_attention.cli.io.many_texts import Answered, check_source, write_answers
from keras_attention.cli.io.printing import json_text
from keras_attention.cli.io.silence import silent_libraries
from keras_attention.cli.io.text_files import decode_line, standard_input_lines, text_output
from keras_attention.data.translation.parallel_text import read_lines
from keras_attention.errors import UserError
from keras_attention.zoo.registry import find_entry


def translate(arguments):
    """Reads all sentences, checks the output paths, loads the model, translates and writes."""
    check_source(arguments)
    folder = find_entry(arguments.model)
    _check_stream(arguments)
    if not arguments.attention and (arguments.layers is not None or arguments.heads is not None):
        raise UserError("--layers and --heads need --attention FILE.")
    if arguments.attention:
        from keras_attention.visualize.figures import check_figure_path

        check_figure_path(arguments.attention)
    talks = not arguments.texts and not arguments.input and sys.stdin.isatty()
    if not talks and not arguments.stream:
        write_answers(arguments, folder, lambda: partial(_answered, arguments, load(folder)))
        return
    with text_output(arguments.output) as output:
        if talks:
            _talk(arguments, folder, output)
        else:
            texts = _texts(arguments)
            _stream(arguments, load(folder), texts, output)


def _check_stream(arguments):
    """Raises UserError for options that do not go with --stream, or that need it."""
    beside = {"--json": arguments.json, "--n-best": arguments.n_best > 1, "--attention": arguments.attention}
    beside |= {"--beam": arguments.beam, "--replace-unknowns": arguments.replace_unknowns}
    beside |= {"--length-penalty": arguments.length_penalty, "--coverage-penalty": arguments.coverage_penalty}
    given = [name for name, value in beside.items() if value]
    if arguments.stream and given:
        raise UserError(f"--stream prints plain text without beam search. Leave out {', '.join(given)}.")
    if not arguments.stream and (arguments.temperature or arguments.top_k or arguments.top_p != 1.0 or arguments.seed):
        raise UserError("--temperature, --top-k, --top-p and --seed need --stream.")


def _stream(arguments, translator, texts, output):
    """Prints one line per sentence, each token as soon as it is known."""
    sampling = {name: getattr(arguments, name) for name in ("temperature", "top_k", "top_p", "seed", "max_length")}
    for text in texts:
        for piece in translator.stream(text, **sampling):
            print(piece, end="", file=output, flush=True)
        print(file=output, flush=True)


def _texts(arguments):
    if arguments.texts:
        return arguments.texts
    return read_lines(arguments.input) if arguments.input else standard_input_lines()


def load(folder):
    """The translator of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_translator

    return load_translator(folder)


def search_options(arguments):
    """The search options given on the command line."""
    return {
        "beam_size": arguments.beam,
        "length_penalty": arguments.length_penalty,
        "coverage_penalty": arguments.coverage_penalty,
        "max_length": arguments.max_length,
    }


def _talk(arguments, folder, output):
    """Translates each line as soon as it is typed, until Ctrl-D."""
    translator = load(folder)
    print("Type a sentence and press Enter; Ctrl-D ends.", file=sys.stderr)
    for number, line in enumerate(iter(sys.stdin.buffer.readline, b""), start=1):
        texts = [decode_line(line.removesuffix(b"\n"), number)]
        if arguments.stream:
            _stream(arguments, translator, texts, output)
            continue
        answered = _answered(arguments, translator, texts, number, 1)
        print(*answered.lines, sep="\n", file=output, flush=True)
        for note in answered.notes:
            print(f"keras-attention: {note}", file=sys.stderr)


def _answered(arguments, translator, texts, first, total, progress=None):
    """The output lines of some sentences, starting with number `first` of `total`; draws the --attention maps."""
    answers = translator.hypotheses(
        texts,
        n_best=arguments.n_best,
        attention=bool(arguments.attention),
        replace_unknowns=arguments.replace_unknowns,
        progress=progress,
        **search_options(arguments),
    )
    if arguments.attention:
        _draw(arguments, answers, first, total)
    lines, notes = [], []
    for number, (text, translations) in enumerate(zip(texts, answers, strict=True), start=first):
        lines += _lines(arguments, number, text, translations)
        if translations[0].low_score:
            notes.append(
                f"sentence {number}: low score, the model is not sure of its answer; the input may be unlike all that "
                "it was trained on."
            )
    return Answered(lines, [best.truncated for best, *_ in answers], notes)


def _lines(arguments, number, text, translations):
    """One line per sentence; with --n-best, one line per translation: number, score, text, separated by tabs."""
    if arguments.json:
        return [json_text(_as_json(text, translations))]
    if arguments.n_best > 1:
        return [f"{number}\t{translation.score:.4f}\t{translation.text}" for translation in translations]
    return [translations[0].text]


def _as_json(text, translations):
    best = translations[0]
    shown = ("text", "score", "log_prob", "low_score", "tokens")
    return {
        "source": text,
        "source_tokens": best.source_tokens,
        "truncated": best.truncated,
        "translations": [{name: getattr(translation, name) for name in shown} for translation in translations],
    }


def _draw(arguments, answers, first, total):
    """Draws the heat map of each best translation, or of its layers and heads; several files are numbered."""
    from keras_attention.visualize.heatmaps import attention_heatmap, heads_heatmap

    path = Path(arguments.attention)
    for number, (best, *_) in enumerate(answers, start=first):
        if not best.tokens:
            continue
        file = path if total == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        if arguments.layers is None and arguments.heads is None:
            attention_heatmap(best.attention, best.source_tokens, best.tokens, file)
        else:
            chosen = {"layers": arguments.layers or None, "heads": arguments.heads or None}
            heads_heatmap(best.heads, best.source_tokens, best.tokens, file, **chosen)
