"""`keras-attention translate` and `attention`; and what a translation recipe shows at its end."""

import select
import sys
from collections import Counter
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from keras_attention.cli.io.explained_answers import check_explain, check_number, contrast_of, write_explanations
from keras_attention.cli.io.many_texts import (
    ProgressLine,
    Window,
    check_source,
    check_table,
    hint_at_tables,
    many_rows,
    many_texts,
    piped_lines,
    tell_shielded,
)
from keras_attention.cli.io.terminal import command_line, compiling_note, json_text, load, one_output_line, safe
from keras_attention.cli.io.text_files import check_no_file_names, keyboard_lines, text_output
from keras_attention.data.files import read_bytes, read_lines, recoded
from keras_attention.data.tables.table import AnsweredTable
from keras_attention.support.atomic_files import claim_place, whole_files
from keras_attention.support.errors import UserError, counted
from keras_attention.support.installation import install_command
from keras_attention.visualize.pages import check_page_path
from keras_attention.zoo.registry import no_model, open_entry


def translate(arguments):
    """Reads all sentences, checks the output paths, loads the model, translates and writes.

    With --table, it writes all columns of the table, followed by the translation.
    """
    check_table(arguments, FOR_TABLES)
    table = None
    if arguments.table:
        _check_beside_table(arguments)
        table = _read_table(arguments)
    else:
        check_source(arguments)
        hint_at_tables(arguments)
    if arguments.model is None:
        arguments.model = _model_for_languages(arguments, table)
    elif arguments.to or arguments.source_language:
        raise UserError("--to and --from choose a model: leave out --model, or both of them.")
    entry = open_entry(arguments.model, "translate")
    _read_demands(arguments)
    _check_options(arguments)
    check_engine(arguments)
    if arguments.stream:
        _stream(arguments, entry)
        return
    if arguments.alternatives is not None:
        _alternatives(arguments, entry)
        return
    if arguments.format != "text":
        _translate_document(arguments, entry)
        return
    doubts, explained = Counter(), []
    with many_rows(arguments, entry.folder, table) if table else many_texts(arguments, entry.folder) as job:
        if arguments.explain:
            check_number(arguments, job.total)
        translator = with_engine(load(entry, "translate"), arguments)
        for window in job.windows():
            answers = translator.hypotheses(
                [row.texts[0] for row in window.texts] if table else window.texts,
                n_best=arguments.n_best,
                attention=bool(arguments.attention) or arguments.align,
                replace_unknowns=arguments.replace_unknowns,
                split=not arguments.no_split,
                progress=window.progress,
                **_demands(arguments),
                **search_options(arguments),
            )
            if arguments.attention:
                _draw(arguments, answers, window)
            if arguments.explain:
                contrast = contrast_of(arguments)
                explained += [
                    translator.explain(text, target=best, contrast=contrast)
                    for text, (best, *_) in zip(window.texts, answers, strict=True)
                ]
            truncated = [best.truncated for best, *_ in answers]
            lines = _rows(table, window, answers) if table else _lines(arguments, window, answers)
            job.write(lines, truncated, _notes(window, answers, doubts))
    tell_shielded(table, "translations")
    if arguments.explain:
        write_explanations(arguments.explain, explained)
    if doubts.total() > MOST_NOTES and job.total > 1:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in doubts.most_common())
        run = "sentences" if job.answered == job.total else "sentences answered in this run"
        print(f"keras-attention: {job.answered:,} {run}, of these {counts}. --json marks each one.", file=sys.stderr)


LINES_READ = 100  # of a file; they tell its language


FOR_TABLES = ("text", "delimiter", "skip_bad_rows", "raw")


def _check_beside_table(arguments):
    """Raises UserError for options that give other things than one translation of each text, which a table gets."""
    beside = {"--json": arguments.json, "--n-best": arguments.n_best != 1, "--attention": arguments.attention}
    beside |= {"--align": arguments.align, "--stream": arguments.stream, "--format": arguments.format != "text"}
    if given := [name for name, value in beside.items() if value]:
        raise UserError(f"A table gets a column with the translations. Leave out {' and '.join(given)}.")


def _read_table(arguments):
    options = {"skip_bad_rows": arguments.skip_bad_rows, "delimiter": arguments.delimiter, "raw": arguments.raw}
    options |= {"encoding": arguments.encoding, "answers": ("translation",)}
    return AnsweredTable(arguments.table, arguments.text or "text", **options)


def _rows(table, window, answers):
    """The output lines for a window of the rows of a table."""
    lines = [table.answered(row, best.text) for row, (best, *_) in zip(window.texts, answers, strict=True)]
    return [*(table.head if window.first == 1 else ()), *lines]


def _model_for_languages(arguments, table):
    """The name of the best model for --to and --from, which is named on stderr."""
    if arguments.to is None:
        raise no_model("translate", instead=" Or name a language: --to de.")
    from keras_attention.pipelines.language_pairs import choice_message, find_translator

    texts, detected = arguments.texts, arguments.source_language is None
    if table:
        texts = (row.texts[0] for row in table.rows())
    elif detected and not texts:
        if not arguments.input and sys.stdin.isatty():
            raise UserError("--from is missing: the language of what you type cannot be detected before you type it.")
        texts = read_lines(arguments.input, arguments.encoding) if arguments.input else piped_lines(arguments)
    pair = find_translator(arguments.to, arguments.source_language, list(islice(texts, LINES_READ)))
    print(f"keras-attention: {choice_message(pair, detected)}", file=sys.stderr)
    return pair.model


def _check_options(arguments):
    """Raises UserError for options that cannot be combined, such as those that need --stream."""
    beside = {"--json": arguments.json, "--n-best": arguments.n_best != 1, "--attention": arguments.attention}
    beside |= {"--align": arguments.align}
    beside |= {"--replace-unknowns": arguments.replace_unknowns, "--resume": arguments.resume}
    demands = {f"--{name.replace('_', '-')}": value for name, value in _demands(arguments).items()}
    beside |= search_flags(arguments, ("beam", "length_penalty", "coverage_penalty"))
    given = [name for name, value in beside.items() if value]
    if arguments.format != "text":
        given += ["--stream"] if arguments.stream else []
        if given or len(arguments.texts) > 1:
            received = " and ".join(given) or "several texts"
            raise UserError(f"--format {arguments.format} translates one document as a whole. Found: {received}")
    given += [name for name, value in demands.items() if value]
    if arguments.stream and given:
        raise UserError(f"--stream prints plain text without beam search. Leave out {', '.join(given)}.")
    chosen_from = arguments.top_k or arguments.top_p != 1.0
    if not arguments.stream and (arguments.temperature or chosen_from or arguments.seed):
        raise UserError("--temperature, --top-k, --top-p and --seed need --stream.")
    if chosen_from and not arguments.temperature:
        raise UserError("--top-k and --top-p need a --temperature above 0: without it, nothing is sampled.")
    if arguments.position is not None and arguments.alternatives is None:
        raise UserError("--position needs --alternatives N.")
    if arguments.alternatives is not None:
        beside |= demands | {"--stream": arguments.stream, "--format": arguments.format != "text"}
        beside |= {
            "--output": arguments.output,
            "--table": arguments.table,
            "--input": arguments.input,
            "--json": False,
        }
        given = [name for name, value in beside.items() if value]
        if given or len(arguments.texts) != 1:
            received = " and ".join(given) or counted(len(arguments.texts), "text")
            raise UserError(f"--alternatives takes one text and no other options of the answer. Found: {received}")
    beside = {"--table": arguments.table, "--stream": arguments.stream, "--resume": arguments.resume}
    beside |= {"--alternatives": arguments.alternatives is not None, "--format": arguments.format != "text"}
    beside |= {"--prefix": arguments.prefix, "--n-best": arguments.n_best != 1}
    check_explain(arguments, beside | {"--engine": arguments.engine != "keras"})
    if not arguments.attention and (arguments.layers is not None or arguments.heads is not None):
        raise UserError("--layers and --heads need --attention FILE.")
    if arguments.attention:
        from keras_attention.visualize.figures import check_figure_path

        claim_place(check_figure_path(arguments.attention))


def _alternatives(arguments, entry):
    """Prints other words at a place of a translation, a line each: word, probability, translation."""
    translator, (text,) = with_engine(load(entry, "translate"), arguments), arguments.texts
    alternatives = translator.alternatives(text, arguments.position or 0, arguments.alternatives)
    compiling_note.clear()
    for one in alternatives:
        fields = {"word": one.word, "probability": one.probability, "translation": one.translation.text}
        line = f"{one.word}\t{one.probability:.4f}\t{one.translation.text}"
        print(json_text(fields) if arguments.json else one_output_line(line))


def _read_demands(arguments):
    """Reads the files of --terms and --do-not-translate, whose content takes the place of their names."""
    from keras_attention.pipelines.control.terms import read_names, read_terms

    if arguments.terms:
        arguments.terms = read_terms(arguments.terms, arguments.encoding)
    if arguments.do_not_translate:
        arguments.do_not_translate = read_names(arguments.do_not_translate, arguments.encoding)


def _demands(arguments):
    """What is demanded of the translations, as arguments of `Translator.hypotheses`."""
    return {name: getattr(arguments, name) for name in ("prefix", "terms", "do_not_translate")}


def _stream(arguments, entry):
    """Prints one line per sentence, each token as soon as it is generated."""
    sampling = {name: getattr(arguments, name) for name in ("temperature", "top_k", "top_p", "seed", "max_length")}
    sampling["split"] = not arguments.no_split
    with text_output(arguments.output) as output:
        texts, written = _texts(arguments), 0
        translator = with_engine(load(entry, "translate"), arguments)
        for text in texts:
            for piece in translator.stream(text, **sampling):
                compiling_note.clear(forever=True)
                print(one_output_line(piece), end="", file=output, flush=True)
            print(file=output, flush=True)
            written += 1
    if arguments.output:
        print(f"keras-attention: {arguments.output}: {counted(written, 'answer')}", file=sys.stderr)


def _translate_document(arguments, entry):
    """Translates the texts of a document, and writes it with everything else as it was."""
    from keras_attention.pipelines.markup import translate_document

    with text_output(arguments.output) as output:
        document = _document(arguments)
        translator, doubts, notes = with_engine(load(entry, "translate"), arguments), Counter(), []

        def translate_texts(texts):
            progress, options = ProgressLine(), search_options(arguments) | _demands(arguments)
            answers = translator.hypotheses(texts, split=not arguments.no_split, progress=progress, **options)
            notes.extend(_notes(Window(texts, 1, len(texts), progress), answers, doubts))
            return [best.text for best, *_ in answers]

        translated = translate_document(document, arguments.format, translate_texts)
        compiling_note.clear()
        print(safe(translated, keep="\t\r\n"), end="", file=output, flush=True)
    for note in notes:
        print(f"keras-attention: {note}", file=sys.stderr)
    if doubts.total() > MOST_NOTES:
        print(
            f"keras-attention: {doubts.total():,} texts are doubtful, the first {MOST_NOTES} are named", file=sys.stderr
        )


def _document(arguments):
    """The document that is given as text, by --input or on standard input: str."""
    if arguments.texts:
        return arguments.texts[0] + "\n"
    if not arguments.input:
        return "".join(f"{line}\n" for line in piped_lines(arguments))
    content = recoded(read_bytes(arguments.input), arguments.input, arguments.encoding)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{arguments.input}: byte {error.start + 1:,} is not UTF-8. Expected: UTF-8, or --encoding NAME."
        ) from error


def _texts(arguments):
    if arguments.texts:
        return arguments.texts
    if arguments.input:
        return read_lines(arguments.input, arguments.encoding)
    return keyboard_lines() if sys.stdin.isatty() else piped_lines(arguments)


def check_engine(arguments):
    """Raises UserError if the package of the chosen engine is missing, or an option needs another engine."""
    if arguments.engine == "keras":
        if arguments.compute_type:
            raise UserError("--compute-type needs --engine ctranslate2.")
    elif find_spec(arguments.engine) is None:
        raise UserError(f"--engine {arguments.engine} needs a package: {install_command('ctranslate2')}")


def with_engine(translator, arguments):
    """The translator, set to the engine that was chosen on the command line."""
    if arguments.engine != "keras":
        translator.use_engine(arguments.engine, compute_type=arguments.compute_type)
    return translator


SEARCH = ("beam", "length_penalty", "coverage_penalty", "max_length")


def search_flags(arguments, names=SEARCH):
    """Dict from each flag of the search to whether it was given on the command line."""
    return {f"--{name.replace('_', '-')}": getattr(arguments, name) is not None for name in names}


def search_options(arguments):
    """The search options given on the command line."""
    return {
        "beam_size": arguments.beam,
        "length_penalty": arguments.length_penalty,
        "coverage_penalty": arguments.coverage_penalty,
        "max_length": arguments.max_length,
    }


def _lines(arguments, window, answers):
    """One line per sentence; with --n-best, one line per translation: number, score, text, separated by tabs."""
    from keras_attention.pipelines.translator import translations_as_json

    lines = []
    for number, (text, translations) in enumerate(zip(window.texts, answers, strict=True), start=window.first):
        pairs = [_pairs(one) if arguments.align else None for one in translations]
        if arguments.json:
            records = translations_as_json(translations)
            for one, alignment in zip(records["translations"], pairs, strict=True):
                one |= {} if alignment is None else {"alignment": alignment}
            lines.append(json_text({"source": text, **records}))
        elif arguments.n_best > 1 or arguments.align:
            for one, alignment in zip(translations, pairs, strict=True):
                fields = [str(number), f"{one.score:.4f}"] if arguments.n_best > 1 else []
                fields += [one_output_line(one.text), *([] if alignment is None else [alignment])]
                lines.append("\t".join(fields))
        else:
            keep = "\t\n" if len(arguments.texts) == 1 else "\t"  # a single text keeps its lines
            lines.append(one_output_line(translations[0].text, keep))
    return lines


def _pairs(translation):
    """The alignment of a translation, such as "0-0 2-1": source word, target word."""
    from keras_attention.pipelines.marks import alignment_pairs

    return " ".join(f"{source}-{word}" for source, word in alignment_pairs(translation))


MOST_NOTES = 10  # messages about single sentences of many
NOTES = {
    "low score": "low score, the model is not sure of its answer; the input may be unlike all that it was trained on.",
    "wrong language": "low score (wrong language): the text is not in the language that this model translates from.",
    "many unknown pieces": "low score (many unknown pieces): many words have letters that the model does not know.",
    "repetition": "low score (repetition): the answer repeats itself, so a part of it is wrong.",
    "numbers differ": "low score (numbers differ): a number of the input is missing, or another one appears.",
    "items differ": "low score (items differ): an address, a placeholder, a tag or an emoji of the input is missing.",
    "prefix differs": "low score (prefix differs): the answer does not begin as --prefix says.",
    "terms differ": "low score (terms differ): a translation that --terms demands is missing.",
    "not a date": "low score (not a date): the answer is not a calendar day; the input may not be a date.",
}


def _notes(window, answers, doubts):
    """A message for each doubtful translation, up to `MOST_NOTES`; all are counted by reason in `doubts`."""
    notes = []
    for number, (best, *_) in enumerate(answers, start=window.first):
        if best.low_score:
            doubts[best.reason] += 1
            if window.total == 1 or doubts.total() <= MOST_NOTES:
                notes.append(f"sentence {number}: {NOTES[best.reason]}")
    return notes


def _draw(arguments, answers, window):
    """Draws the heat map of each best translation, or of its layers and heads.

    Several pictures are numbered, and those of a window are saved together.
    """
    path = Path(arguments.attention)
    if window.total == 1:
        _draw_one(arguments, answers[0][0], path)
        return
    with whole_files(path) as folder:
        for number, (best, *_) in enumerate(answers, start=window.first):
            _draw_one(arguments, best, folder / f"{path.stem}-{number}{path.suffix}")


def _draw_one(arguments, best, path):
    from keras_attention.visualize.figures import attention_heatmap, heads_heatmap

    if not best.tokens:
        print(f"keras-attention: {path.name}: not drawn, because the translation has no tokens", file=sys.stderr)
        return
    if arguments.layers is None and arguments.heads is None:
        attention_heatmap(best.attention, best.source_tokens, best.tokens, path)
    else:
        chosen = {"layers": arguments.layers or None, "heads": arguments.heads or None}
        heads_heatmap(best.heads, best.source_tokens, best.tokens, path, **chosen)


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


def typed_lines(prompt):
    """Yields lines from the keyboard, or those already in the pipe, until an empty line or the end.

    Args:
        prompt: str, shown on a terminal.
    """
    while True:
        if sys.stdin is None or sys.stdin.closed:
            return
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        elif not select.select([sys.stdin], [], [], 0.5)[0]:  # a pipe without a writer: do not wait forever
            return
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


SHOWN = 5


def try_out(folder, data, scores, ask):
    """Prints scores, loads an entry, shows translations, draws an attention map, and translates typed input.

    Ends with the command that uses the model.

    Args:
        folder: Path of the entry. The picture is saved beside it, under its name with "_attention.png".
        data: TranslationData; the first test sentences are translated.
        scores: list of dict, see `write_trained`.
        ask: bool, whether to prompt for sentences and translate them.
    """
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.visualize.figures import attention_heatmap

    for score in scores:
        print(f"{score['set']}: {score['metric']} {score['value']:.2f}  ({score['signature']})")
    translator = load_pipeline(folder, "translate")
    texts = data.test[0][:SHOWN]
    answers = [best for best, *_ in translator.hypotheses(texts, attention=translator.has_attention)]
    for text, answer in zip(texts, answers, strict=True):
        print(one_output_line(f"{text}  ->  {answer.text}"))
    if translator.has_attention:
        picture = folder.with_name(folder.name + "_attention.png")
        attention_heatmap(answers[0].attention, answers[0].source_tokens, answers[0].tokens, picture)
        print(f"Attention weights of the first translation: {picture}")
    dates = data.target_language == "iso"
    prompt = f"A {'date in any of these languages' if dates else 'sentence'} (empty line to end): "
    try:
        for text in typed_lines(prompt) if ask else ():
            best = translator.hypotheses(text)[0][0]
            doubt = f"   (unsure{': is this a date?' * dates})" * best.low_score
            print(one_output_line(f"{text}  ->  {best.text}{doubt}"), flush=True)
    except KeyboardInterrupt:  # ends the questions, as an empty line does
        print()
    print(f"Saved to {folder}. Try: {command_line('translate', folder, texts[0])}")
