"""`keras-attention translate`: lines, tables and documents; alternatives for a word; streams."""

import sys
from collections import Counter
from itertools import islice

from keras_attention.cli.attention_views import check_heatmap_options, draw_heatmaps
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
    report_shielded,
)
from keras_attention.cli.io.search_options import check_engine, search_flags, search_options, with_engine
from keras_attention.cli.io.terminal import compiling_note, json_text, load, one_output_line, safe
from keras_attention.cli.io.text_files import keyboard_lines, text_output
from keras_attention.data.files import read_bytes, read_lines, recoded
from keras_attention.data.tables.table import AnsweredTable
from keras_attention.support.errors import UserError, counted
from keras_attention.support.moved import moved_name
from keras_attention.zoo.registry import no_model, open_entry

TABLE_OPTIONS = ("text", "delimiter", "skip_bad_rows", "raw")
LINES_READ = 100  # of a file, to detect its language
MOST_NOTES = 10  # messages about single sentences of many
NOTES = {
    "low score": "low score, the model is not sure of its answer; the input may be unlike all that it was trained on.",
    "wrong language": "low score (wrong language): the text is not in the language that this model translates from.",
    "many unknown pieces": "low score (many unknown pieces): many words have letters that the model does not know.",
    "repetition": "low score (repetition): the answer repeats itself, so a part of it is wrong.",
    "numbers differ": "low score (numbers differ): a number of the input is missing, or another one appears.",
    "items differ": "low score (items differ): an address, placeholder, tag, emoji or currency is lost or changed.",
    "prefix differs": "low score (prefix differs): the answer does not begin as --prefix says.",
    "terms differ": "low score (terms differ): a translation that --terms demands is missing.",
    "not a date": "low score (not a date): the answer is not a calendar day; the input may not be a date.",
}


def translate(arguments):
    """Reads all sentences, checks the output paths, loads the model, translates and writes.

    With --table, it writes all columns of the table, followed by the translation.
    """
    check_table(arguments, TABLE_OPTIONS)
    table = None
    if arguments.table:
        _check_table_options(arguments)
        table = _read_table(arguments)
    else:
        check_source(arguments)
        hint_at_tables(arguments)
    if arguments.model is None:
        arguments.model = _model_for_languages(arguments, table)
    elif arguments.to or arguments.source_language:
        raise UserError("--to and --from choose a model: leave out --model, or both of them.")
    entry = open_entry(arguments.model, "translate")
    _read_term_lists(arguments)
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
                **_controls(arguments),
                **search_options(arguments),
            )
            if arguments.attention:
                draw_heatmaps(arguments, answers, window)
            if arguments.explain:
                contrast = contrast_of(arguments)
                explained += [
                    translator.explain(text, target=best, contrast=contrast)
                    for text, (best, *_) in zip(window.texts, answers, strict=True)
                ]
            truncated = [best.truncated for best, *_ in answers]
            lines = _rows(table, window, answers) if table else _lines(arguments, window, answers)
            job.write(lines, truncated, _notes(window, answers, doubts))
    report_shielded(table, "translations")
    if arguments.explain:
        write_explanations(arguments.explain, explained)
    if doubts.total() > MOST_NOTES and job.total > 1:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in doubts.most_common())
        run = "sentences" if job.answered == job.total else "sentences answered in this run"
        print(f"keras-attention: {job.answered:,} {run}, of these {counts}. --json marks each one.", file=sys.stderr)


def _check_table_options(arguments):
    """Raises UserError for options that give other things than one translation of each text, which a table gets."""
    others = {"--json": arguments.json, "--n-best": arguments.n_best != 1, "--attention": arguments.attention}
    others |= {"--align": arguments.align, "--stream": arguments.stream, "--format": arguments.format != "text"}
    if given := [name for name, value in others.items() if value]:
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
    texts = list(islice(texts, LINES_READ))
    pair = find_translator(arguments.to, arguments.source_language, texts)
    print(f"keras-attention: {choice_message(pair, texts if detected else ())}", file=sys.stderr)
    return pair.model


def _check_options(arguments):
    """Raises UserError for options that cannot be combined, such as those that need --stream."""
    for_answers = {"--json": arguments.json, "--n-best": arguments.n_best != 1, "--attention": arguments.attention}
    for_answers |= {"--align": arguments.align}
    for_answers |= {"--replace-unknowns": arguments.replace_unknowns, "--resume": arguments.resume}
    controls = {f"--{name.replace('_', '-')}": value for name, value in _controls(arguments).items()}
    for_answers |= search_flags(arguments, ("beam", "length_penalty", "coverage_penalty"))
    given = [name for name, value in for_answers.items() if value]
    if arguments.format != "text":
        given += ["--stream"] if arguments.stream else []
        if given or len(arguments.texts) > 1:
            received = " and ".join(given) or "several texts"
            raise UserError(f"--format {arguments.format} translates one document as a whole. Found: {received}")
    given += [name for name, value in controls.items() if value]
    if arguments.stream and given:
        raise UserError(f"--stream prints plain text without beam search. Leave out {', '.join(given)}.")
    truncates_sampling = arguments.top_k or arguments.top_p != 1.0
    if not arguments.stream and (arguments.temperature or truncates_sampling or arguments.seed):
        raise UserError("--temperature, --top-k, --top-p and --seed need --stream.")
    if truncates_sampling and not arguments.temperature:
        raise UserError("--top-k and --top-p need a --temperature above 0: without it, nothing is sampled.")
    if arguments.position is not None and arguments.alternatives is None:
        raise UserError("--position needs --alternatives N.")
    if arguments.alternatives is not None:
        for_answers |= {
            "--prefix": arguments.prefix,
            "--stream": arguments.stream,
            "--format": arguments.format != "text",
            "--output": arguments.output,
            "--table": arguments.table,
            "--input": arguments.input,
            "--json": False,
        }
        given = [name for name, value in for_answers.items() if value]
        if given or len(arguments.texts) != 1:
            received = " and ".join(given) or counted(len(arguments.texts), "text")
            raise UserError(f"--alternatives takes one text and no other options of the answer. Found: {received}")
    others = {"--table": arguments.table, "--stream": arguments.stream, "--resume": arguments.resume}
    others |= {"--alternatives": arguments.alternatives is not None, "--format": arguments.format != "text"}
    others |= {"--prefix": arguments.prefix, "--n-best": arguments.n_best != 1}
    check_explain(arguments, others | {"--engine": arguments.engine != "keras"})
    check_heatmap_options(arguments)


def _alternatives(arguments, entry):
    """Prints other words at a place of a translation, a line each: word, probability, translation."""
    translator, (text,) = with_engine(load(entry, "translate"), arguments), arguments.texts
    constraints = {"terms": arguments.terms, "do_not_translate": arguments.do_not_translate}
    alternatives = translator.alternatives(text, arguments.position or 0, arguments.alternatives, **constraints)
    compiling_note.clear()
    for one in alternatives:
        fields = {"word": one.word, "probability": one.probability, "translation": one.translation.text}
        line = f"{one.word}\t{one.probability:.4f}\t{one.translation.text}"
        print(json_text(fields) if arguments.json else one_output_line(line))


def _read_term_lists(arguments):
    """Reads the files of --terms and --do-not-translate, whose content takes the place of their names."""
    from keras_attention.pipelines.control.terms import read_names, read_terms

    if arguments.terms:
        arguments.terms = read_terms(arguments.terms, arguments.encoding)
    if arguments.do_not_translate:
        arguments.do_not_translate = read_names(arguments.do_not_translate, arguments.encoding)


def _controls(arguments):
    """The options that constrain the translations, as arguments of `Translator.hypotheses`."""
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
            progress, options = ProgressLine(), search_options(arguments) | _controls(arguments)
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


def _lines(arguments, window, answers):
    """One line per sentence; with --n-best, one line per translation: number, score, text, separated by tabs."""
    from keras_attention.pipelines.translator import translations_as_json

    lines = []
    for number, (text, translations) in enumerate(zip(window.texts, answers, strict=True), start=window.first):
        pairs = [_pairs(one, text) if arguments.align else None for one in translations]
        if arguments.json:
            records = translations_as_json(translations)
            for one, alignment in zip(records["translations"], pairs, strict=True):
                one |= {} if alignment is None else {"alignment": alignment}
            lines.append(json_text({"source": text, **records}))
        elif arguments.n_best > 1 or arguments.align:
            for one, alignment in zip(translations, pairs, strict=True):
                fields = [str(number), f"{one.score:.4f}"] if arguments.n_best > 1 else []
                fields += [one_output_line(one.text, keep=""), *([] if alignment is None else [alignment])]
                lines.append("\t".join(fields))
        else:
            keep = "\t\n" if len(arguments.texts) == 1 else "\t"  # a single text keeps its lines
            lines.append(one_output_line(translations[0].text, keep))
    return lines


def _pairs(translation, text):
    """The alignment of the translation of a text, such as "0-0 2-1": source word, target word."""
    from keras_attention.pipelines.marks import alignment_pairs

    return " ".join(f"{source}-{word}" for source, word in alignment_pairs(translation, text))


def _notes(window, answers, doubts):
    """A message for each doubtful translation, up to `MOST_NOTES`; all are counted by reason in `doubts`."""
    notes = []
    for number, (best, *_) in enumerate(answers, start=window.first):
        if best.low_score:
            doubts[best.reason] += 1
            if window.total == 1 or doubts.total() <= MOST_NOTES:
                notes.append(f"sentence {number}: {NOTES[best.reason]}")
    return notes


def __getattr__(name):
    return moved_name(__name__, name)
