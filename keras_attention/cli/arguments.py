"""The parser of every command: its options, and the file and function that run it."""

import argparse
from dataclasses import fields

from keras_attention.cli.io.search_options import COMPUTE_TYPES, add_engine, add_search_options
from keras_attention.cli.io.shared_options import (
    MODEL,
    add_command,
    add_encoder,
    add_encoding,
    add_explain,
    add_input,
    add_label_columns,
    add_model,
    add_output,
    add_table,
)
from keras_attention.finetuning.settings import DEFAULT_START, MULTILINGUAL_START, FinetuneSettings
from keras_attention.server import ServerSettings
from keras_attention.support.flags import add_settings
from keras_attention.zoo.registry import DEFAULT_MODELS

DEFAULT_MASKED_LM = "bert_mini_en"


def add_translate(commands):
    command = add_command(commands, "translate", "translate", "translate", "Translate texts with a trained model.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: --input or standard input")
    help_text = "in place of --model: translate into this language, such as de, with the best model of the zoo"
    command.add_argument("--to", metavar="LANGUAGE", help=help_text)
    help_text = "with --to: the language of the texts; default: detected"
    command.add_argument("--from", dest="source_language", metavar="LANGUAGE", help=help_text)
    add_input(command)
    help_text = "CSV, TSV or JSONL with a header; the output has one more column, translation"
    add_table(command, help_text, "translations")
    add_encoding(command)
    add_output(command)
    command.add_argument("--resume", action="store_true", help="continue an interrupted run to --output")
    command.add_argument("--n-best", type=int, default=1, metavar="K", help="translations per text, with scores")
    command.add_argument(
        "--attention", metavar="FILE", help="draw a heat map (.png, .svg, .pdf); several: FILE-1.png, ..."
    )
    add_explain(command, "translation", "source word")
    help_text = (
        "print a tab and the alignment by attention after each translation: pairs source-target of words, from 0"
    )
    command.add_argument("--align", action="store_true", help=help_text)
    chosen = "with --attention: one map for each of these {}, such as 1,3, or all; default: their mean"
    command.add_argument("--layers", type=_numbers, metavar="N,N", help=chosen.format("layers"))
    command.add_argument("--heads", type=_numbers, metavar="N,N", help=chosen.format("heads"))
    command.add_argument("--pieces", action="store_true", help="with --attention: pieces of words instead of words")
    command.add_argument(
        "--stream", action="store_true", help="print each token as soon as it is generated; no beam search"
    )
    command.add_argument(
        "--temperature", type=float, default=0.0, metavar="X", help="with --stream: sample; 0 (default): do not sample"
    )
    help_text = "with --temperature: sample from the K most probable tokens"
    command.add_argument("--top-k", type=int, default=0, metavar="K", help=help_text)
    help_text = "with --temperature: sample from the most probable tokens with a total probability of P"
    command.add_argument("--top-p", type=float, default=1.0, metavar="P", help=help_text)
    command.add_argument("--seed", type=int, default=0, metavar="N", help="random seed for sampling")
    help_text = "of the input: in Markdown, HTML and subtitles, only the texts are translated; default: lines of text"
    command.add_argument("--format", choices=("text", "markdown", "html", "srt"), default="text", help=help_text)
    help_text = "translate each text in one piece; default: sentence by sentence"
    command.add_argument("--no-split", action="store_true", help=help_text)
    help_text = "text with which each translation begins; a blank at its end says that its last word is whole"
    command.add_argument("--prefix", metavar="TEXT", help=help_text)
    help_text = "print N other words at --position, with probability and the translation to which each leads; one text"
    command.add_argument("--alternatives", type=int, metavar="N", help=help_text)
    help_text = "with --alternatives: the word of the translation, counted from 0 (0)"
    command.add_argument("--position", type=int, metavar="P", help=help_text)
    help_text = "translations to use: on each line a term, a tab, and its translation"
    command.add_argument("--terms", metavar="FILE", help=help_text)
    help_text = "names that stay as they are, one on each line"
    command.add_argument("--do-not-translate", metavar="FILE", help=help_text)
    command.add_argument("--replace-unknowns", action="store_true", help="copy the source word for an unknown token")
    add_model(command)
    add_search_options(command)
    add_engine(command)


def _numbers(text):
    """The numbers in a text such as "1,3"; an empty list for "all"."""
    try:
        return [] if text == "all" else [int(number) for number in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,3 or all, found {text!r}") from error


def add_evaluate(commands):
    help_text = (
        "Score a translator on a source file and its translation (BLEU in two traditions, chrF, TER, BLEU by length), "
        "or a classifier on a table (its scores; precision, recall and F1 of each label)."
    )
    command = add_command(commands, "evaluate", "evaluate", "evaluate", help_text)
    command.add_argument("--source", metavar="FILE", help="UTF-8 text, one sentence per line; also .gz, .xz")
    command.add_argument("--target", metavar="FILE", help="the reference translation, line by line")
    command.add_argument("--table", metavar="FILE", help="CSV, TSV or JSONL with a header; also .gz, .xz")
    add_label_columns(command)
    command.add_argument("--delimiter", metavar="SIGN", help="with --table: character between columns")
    add_encoding(command)
    command.add_argument("--output", metavar="FILE", help="write the report to FILE, whole or not at all")
    help_text = f"{MODEL}; repeat --model to compare models with the first one"
    command.add_argument("--model", dest="models", action="append", metavar="NAME_OR_PATH", help=help_text)
    add_search_options(command)
    add_engine(command)


def add_attention(commands):
    help_text = "Write an HTML page with the attention weights of every layer and head, as lines and heat map."
    command = add_command(commands, "attention", "attention_views", "attention", help_text)
    command.add_argument("text", metavar="TEXT", help="one text; for a text pair, a tab separates the two")
    command.add_argument("--out", required=True, metavar="FILE", help="the page (.html); it needs no network")
    command.add_argument("--target", metavar="TEXT", help="use this translation instead of the model's own")
    command.add_argument("--n-best", type=int, default=1, metavar="K", help="number of translations shown")
    add_model(command)
    add_search_options(command)


def add_zoo(commands):
    zoo = commands.add_parser(
        "zoo", help="List, show and verify the trained models.", description="The trained models."
    )
    actions = zoo.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = add_command(actions, "list", "zoo", "list_entries", "List the models.")
    listing.add_argument("--licence", action="store_true", help="show what each model may be used for")
    show = add_command(actions, "show", "zoo", "show", "Show what a model does, its data and its scores.")
    show.add_argument("name", metavar="NAME", help=MODEL)
    show.add_argument("--card", action="store_true", help="print the whole model card")
    help_text = "draw how similar the position embeddings of patches are instead (.png, .svg, .pdf)"
    show.add_argument("--positions", metavar="FILE", help=help_text)
    verify = add_command(
        actions, "verify", "zoo", "verify", "Check the files against their hashes and reproduce the stored examples."
    )
    verify.add_argument("name", nargs="?", metavar="NAME", help="default: all models")


def add_export(commands):
    command = add_command(commands, "export", "export", "export", "Export a model for use without this package.")
    command.add_argument("name", metavar="NAME", help=MODEL)
    command.add_argument("folder", metavar="DIR", help="new folder, written whole or not at all")
    command.add_argument(
        "--format",
        choices=("saved_model", "litert", "onnx", "ctranslate2"),
        default="saved_model",
        help="saved_model (default): TensorFlow; texts, documents, pixels, waveforms or series in, texts, vectors or "
        "labels out; litert, onnx: BERTs and Transformers, token ids in, logits out; ctranslate2: a Transformer that "
        "translates, tokens in and tokens out",
    )
    command.add_argument("--compute-type", choices=COMPUTE_TYPES, help="with --format ctranslate2: stored weights")
    help_text = "with --format litert or onnx of a BERT: weights of 8 bits; prints how much the answers change"
    command.add_argument("--int8", action="store_true", help=help_text)
    add_encoding(command)
    help_text = "with --int8 of a classifier: table whose score is measured before and after"
    command.add_argument("--table", metavar="FILE", help=help_text)
    add_label_columns(command)
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: from the model, mostly 5")
    command.add_argument(
        "--length-penalty", type=float, metavar="X", help="0 or more; larger prefers longer translations"
    )


def add_launch(commands):
    help_text = "Train in several processes of this machine, and restart them if one dies."
    command = commands.add_parser("launch", help=help_text, description=help_text)
    command.add_argument("--workers", type=int, default=2, metavar="N", help="number of processes (2)")
    command.add_argument("--max-restarts", type=int, default=0, metavar="N", help="give up after N restarts (0)")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.add_argument(
        "command", nargs="+", metavar="COMMAND", help="after --: recipes/NAME.py or finetune, with options"
    )
    command.set_defaults(module="launch", function="launch")


def add_finetune(commands):
    help_text = "Train a classifier on a table of texts and labels, a folder of images or sounds, or a table of series."
    command = add_command(commands, "finetune", "finetune", "finetune", help_text)
    command.usage = "%(prog)s TABLE --text COLUMN --label COLUMN [options], or: %(prog)s FOLDER [options]"
    useful = command.add_argument_group("most useful")
    help_text = (
        "CSV, TSV or JSONL with a header, also .gz, .xz, with texts or names of images or sounds; a folder of images "
        "or sounds, one sub-folder a label; or with --kind series a table with one series a row (CSV, TSV, .npy, .ts)"
    )
    useful.add_argument("table", metavar="TABLE", help=help_text)
    useful.add_argument("--text", metavar="COLUMN", help="column of the texts, or of the names of files")
    useful.add_argument("--label", metavar="COLUMN", help="column of the labels")
    help_text = "what the files of a folder or table are (default: by their names); series: a table, one series a row"
    useful.add_argument("--kind", choices=("images", "sounds", "series"), help=help_text)
    useful.add_argument("--text-b", metavar="COLUMN", help="column of the second texts, for text pairs")
    help_text = "character between the labels of a row, for several labels per text"
    useful.add_argument("--separator", metavar="SIGN", help=help_text)
    help_text = (
        "model to start from, by name or folder, hf://ORG/NAME[@REVISION] for a published BERT, or none for random "
        f"weights (default: {DEFAULT_START}; if a quarter of the texts is in German, French or Spanish: "
        f"{MULTILINGUAL_START}; with --network and for a folder: none)"
    )
    useful.add_argument("--from", dest="start", default=None, metavar="MODEL", help=help_text)
    useful.add_argument("--validation", metavar="FILE", help="table or folder that chooses the best weights")
    useful.add_argument("--test", metavar="FILE", help="table or folder for the report; default: the validation rows")
    useful.add_argument("--out", metavar="DIR", help="folder for the model; default: named after the table")
    useful.add_argument("--resume", action="store_true", help="continue from the last checkpoint of the same training")
    useful.add_argument("--restart", action="store_true", help="start from the beginning although checkpoints exist")
    useful.add_argument("--overwrite", action="store_true", help="replace the trained model in the output folder")
    add_settings(useful, FinetuneSettings, USEFUL_SETTINGS)
    table = command.add_argument_group("the table and its scores")
    kinds = ("binary", "multiclass", "multilabel", "regression")
    table.add_argument("--task", choices=kinds, help="default: determined from the labels")
    table.add_argument("--delimiter", metavar="SIGN", help="character between columns; default: from name and header")
    add_encoding(table)
    table.add_argument("--skip-bad-rows", action="store_true", help="skip and count rows that cannot be read")
    help_text = (
        "language of the texts, for the card and the start (default: German, French or Spanish if the texts look like "
        "it, else en); mul: several"
    )
    table.add_argument("--language", metavar="CODE", help=help_text)
    table.add_argument(
        "--validation-split", type=float, default=0.1, metavar="X", help="without --validation: share of the rows (0.1)"
    )
    help_text = "cross-validation: also train K times, each without a K-th of the rows; report mean and deviation"
    table.add_argument("--folds", type=int, metavar="K", help=help_text)
    training = command.add_argument_group("training")
    help_text = "train N times with other settings (learning rate, epochs, ...), then with the best ones; needs optuna"
    training.add_argument("--search", type=int, metavar="N", help=help_text)
    others = {field.name for field in fields(FinetuneSettings)} - {*USEFUL_SETTINGS, *MACHINE_SETTINGS}
    add_settings(training, FinetuneSettings, others)
    machine = command.add_argument_group("the machine")
    machine.add_argument("--log-dir", metavar="DIR", help="folder for TensorBoard")
    machine.add_argument(
        "--strategy",
        choices=("auto", "none", "mirrored", "multiworker"),
        default="auto",
        help="none: one device; mirrored: all devices; multiworker: several processes; auto (default): by the devices",
    )
    add_settings(machine, FinetuneSettings, MACHINE_SETTINGS)


USEFUL_SETTINGS = ("epochs", "max_tokens", "long_texts", "min_probability", "seed")
MACHINE_SETTINGS = ("mixed_precision", "jit_compile", "accumulate")


def add_convert(commands):
    help_text = (
        "Convert a published BERT, GPT-2 or Marian checkpoint (Hugging Face, Google, keras-hub) into a model of this "
        "package."
    )
    command = add_command(commands, "convert", "convert", "convert", help_text)
    help_text = "folder of the checkpoint, hf://ORG/NAME[@REVISION] or kaggle://ORG/MODEL/keras/VARIANT[/VERSION]"
    command.add_argument("path", metavar="PATH", help=help_text)
    command.add_argument("--out", metavar="DIR", help="new folder; default: named after the checkpoint")
    command.add_argument("--pair", action="store_true", help="the model classifies text pairs")
    command.add_argument("--half", action="store_true", help="store the weights in float16")
    command.add_argument("--language", default="en", metavar="CODE", help="language of the texts, for the card (en)")
    command.add_argument("--overwrite", action="store_true", help="replace the trained model in the output folder")


def add_push(commands):
    help_text = "Share a model on the Hugging Face Hub, with its card; others load it by name, as hf://ORG/NAME."
    command = add_command(commands, "push", "push", "push", help_text)
    command.add_argument("name", metavar="NAME", help=MODEL)
    help_text = "hf://ORG/NAME, created if it is missing; needs HF_TOKEN or `hf auth login`"
    command.add_argument("address", metavar="ADDRESS", help=help_text)
    help_text = "verify the model and list the files that would be pushed; push nothing, no token needed"
    command.add_argument("--dry-run", action="store_true", help=help_text)
    command.add_argument("--public", action="store_true", help="everyone may load it; default: a private model")
    help_text = "licence of the model, in the hub's words such as apache-2.0 (default: as the card says)"
    command.add_argument("--licence", metavar="NAME", help=help_text)


def add_classify(commands):
    help_text = "Classify texts or pictures with a trained model."
    command = add_command(commands, "classify", "classify", "classify", help_text)
    help_text = "texts; for text pairs, a tab separates the two; for a model of pictures, names of files"
    command.add_argument("texts", nargs="*", metavar="TEXT", help=help_text)
    add_model(command)
    add_input(command, "; default: standard input")
    help_text = "CSV, TSV or JSONL with a header; the output has two more columns, label and probability"
    add_table(command, help_text, "labels")
    command.add_argument("--text-b", metavar="COLUMN", help="with --table: column of the second texts, for text pairs")
    add_encoding(command)
    add_output(command)
    help_text = "continue an interrupted run from --input or --table to --output"
    command.add_argument("--resume", action="store_true", help=help_text)
    help_text = "page (.html) with each word coloured by how much the probability falls without it; up to 100 texts"
    command.add_argument("--explain", metavar="FILE", help=help_text)
    help_text = "page (.html) with the attention weights, of files also a picture (.png, .svg, .pdf); several texts "
    help_text += "or files: FILE-1.html, ...; up to 100"
    command.add_argument("--attention", metavar="FILE", help=help_text)
    help_text = "classify without training, by similarity with these labels; --model is then an encoder"
    command.add_argument("--labels", metavar="A,B", help=help_text)
    command.add_argument("--top", type=int, metavar="K", help="show the K most probable labels")
    command.add_argument("--threshold", type=float, metavar="X", help="minimum probability of a label")


def add_caption(commands):
    command = add_command(commands, "caption", "caption", "caption", "Describe pictures, one sentence each.")
    command.add_argument("texts", nargs="*", metavar="PICTURE", help="names of files (PNG, JPEG, WebP, GIF, BMP)")
    help_text = (
        "draw the picture once per word, with a spotlight where it looks (.png, .svg, .pdf); several: FILE-1.png"
    )
    _add_text_about_files(command, "caption", help_text, "captions per picture")


def add_transcribe(commands):
    command = add_command(commands, "transcribe", "caption", "transcribe", "Write what is said in recordings.")
    command.add_argument("texts", nargs="*", metavar="SOUND", help="names of files (WAV, FLAC, OGG, MP3, AIFF)")
    help_text = "draw the sound, and where each word looks (.png, .svg, .pdf); several: FILE-1.png"
    _add_text_about_files(command, "transcribe", help_text, "transcripts per recording")


def _add_text_about_files(command, task, help_text_of_attention, answers):
    """Adds the options of commands that write a text about each of some files."""
    add_model(command, DEFAULT_MODELS[task])
    help_text = "UTF-8 text with one name of a file per line; default: standard input"
    command.add_argument("--input", metavar="FILE", help=help_text)
    add_encoding(command)
    add_output(command)
    command.add_argument("--resume", action="store_true", help="continue an interrupted run from --input to --output")
    command.add_argument("--attention", metavar="FILE", help=help_text_of_attention)
    command.add_argument("--n-best", type=int, default=1, metavar="K", help=f"{answers}, with scores")
    command.add_argument("--beam", type=int, metavar="K", help="beam size; default: from the model, mostly 3")
    command.add_argument("--length-penalty", type=float, metavar="X", help="0 or more; larger prefers longer texts")


def add_encode(commands):
    command = add_command(commands, "encode", "encode", "encode", "Turn texts into vectors.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: --input or standard input")
    add_encoder(command)
    command.add_argument("--output", metavar="FILE", help="NumPy file (.npy) of float32, one row per text")


def add_similar(commands):
    help_text = "Find the texts or words that are most like a query, by the cosine of their vectors."
    command = add_command(commands, "similar", "encode", "similar", help_text)
    command.add_argument("texts", nargs="*", metavar="TEXT", help="texts to compare with; or --input")
    command.add_argument("--query", required=True, action="append", metavar="TEXT", help="may be repeated")
    add_encoder(command)
    help_text = (
        "word vectors of GloVe or word2vec (text, .bin or .npy; may be .gz or .xz): finds words in this file, also for "
        'analogies such as --query "king - man + woman"'
    )
    command.add_argument("--vectors", metavar="FILE", help=help_text)
    command.add_argument("--top", type=int, default=5, metavar="K", help="texts or words per query (5)")
    command.set_defaults(output=None)


def add_fill_mask(commands):
    command = add_command(commands, "fill-mask", "encode", "fill_mask", "Predict the masked words of a text.")
    command.add_argument("texts", nargs="*", metavar="TEXT", help='texts with "[MASK]" in place of each missing word')
    help_text = f"masked language model, by name or folder (default: {DEFAULT_MASKED_LM})"
    command.add_argument("--model", default=DEFAULT_MASKED_LM, metavar="NAME_OR_PATH", help=help_text)
    add_input(command, "; default: standard input")
    add_encoding(command)
    command.set_defaults(output=None, resume=False)
    command.add_argument("--top", type=int, default=5, metavar="K", help="answers per text (5)")
    command.add_argument("--pieces", type=int, default=1, metavar="N", help="maximum number of tokens per word (1)")


def add_generate(commands):
    help_text = "Continue texts or music with a trained language model."
    command = add_command(commands, "generate", "generate", "generate", help_text)
    help_text = "texts to continue; for a model of music, MIDI files or time steps; default: start a new text"
    command.add_argument("prompts", nargs="*", metavar="PROMPT", help=help_text)
    add_model(command, DEFAULT_MODELS["generate"])
    help_text = "maximum number of tokens (200; with --explain 50; of music 1024, which are 16 bars)"
    command.add_argument("--max-tokens", type=int, metavar="N", help=help_text)
    command.add_argument(
        "--temperature", type=float, default=0.8, metavar="X", help="0: always the most probable token; default: 0.8"
    )
    command.add_argument("--top-k", type=int, default=0, metavar="K", help="sample from the K most probable tokens")
    help_text = "sample from the most probable tokens with a total probability of P (0.9)"
    command.add_argument("--top-p", type=float, default=0.9, metavar="P", help=help_text)
    help_text = "above 1, tokens that were used before become less probable (1)"
    command.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X", help=help_text)
    command.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be repeated"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="random seed for sampling (0)")
    command.add_argument("--n", type=int, default=1, metavar="N", help="number of answers to each prompt (1)")
    help_text = "write the music, with its prompt, as a MIDI file; for a model of music"
    command.add_argument("--out", metavar="FILE.mid", help=help_text)
    help_text = "also write the attention weights: of a text as a page (.html), of music also as a picture (.png, .svg)"
    command.add_argument("--attention", metavar="FILE", help=help_text)
    add_explain(command, "answer", "earlier word")


def add_score(commands):
    help_text = "Print the log probability and the perplexity of texts under a language model."
    command = add_command(commands, "score", "generate", "score", help_text)
    command.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: --input or standard input")
    add_model(command, DEFAULT_MODELS["generate"])
    add_input(command)
    add_encoding(command)
    command.add_argument("--tokens", action="store_true", help="print the log probability of each token instead")


def add_serve(commands):
    help_text = "Serve models over HTTP: a JSON API and a web page."
    command = add_command(commands, "serve", "serve", "serve", help_text)
    command.add_argument(
        "--model",
        dest="models",
        action="append",
        metavar="NAME_OR_PATH",
        help="loaded at the start; the first one with a task is its default (may be repeated). Without --model: all "
        f"models, each loaded at its first request; defaults: {', '.join(map(' '.join, DEFAULT_MODELS.items()))}",
    )
    command.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0 allows other machines, too (127.0.0.1)"
    )
    command.add_argument("--port", type=int, default=8000, metavar="N", help="0 chooses a free port (8000)")
    command.add_argument(
        "--allow-host",
        dest="allow_hosts",
        action="append",
        default=[],
        metavar="NAME",
        help="answer requests to this host name, too, and web pages of it; * allows all (may be repeated)",
    )
    command.add_argument(
        "--allow-origin",
        dest="allow_origins",
        action="append",
        default=[],
        metavar="URL",
        help="let web pages of this origin use the API, such as https://site.example (may be repeated)",
    )
    help_text = "answer only requests with a key of this file, one a line: Authorization: Bearer KEY"
    command.add_argument("--api-key-file", metavar="FILE", help=help_text)
    help_text = "with --api-key-file: requests per minute of each key; further requests get status 429"
    command.add_argument("--quota", type=int, metavar="N", help=help_text)
    known = ServerSettings()
    numbers = {
        "concurrency": (int, "requests in progress; further requests get status 503"),
        "max_batch": (int, "texts of different requests computed together, a power of two"),
        "items": (int, "texts per request"),
        "characters": (int, "characters per text"),
        "tokens": (int, "new tokens per request of a language model: prompts x answers to each x max_tokens"),
        "memory_mb": (int, "MB that all answers in progress may take to be computed; more work waits"),
        "seconds": (float, "time limit for receiving a request, and again for answering it"),
        "beam": (int, "beam size of translators; default: from each model"),
    }
    for name, (kind, meaning) in numbers.items():
        default = getattr(known, name)
        help_text = meaning if default is None else f"{meaning} ({default:,})"
        command.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, metavar="N", help=help_text)
    add_engine(command)


def add_warm(commands):
    help_text = "Compile models beforehand, so that their first answer comes sooner."
    command = add_command(commands, "warm", "zoo", "warm", help_text)
    command.add_argument("models", nargs="*", metavar="MODEL", help=f"{MODEL}; default: all models")
