"""`keras-attention generate` and `score`: continues texts or music, and how probable a model finds them."""

import os
import sys

from keras_attention.cli.io.explained_answers import check_explain, contrast_of, write_explanations
from keras_attention.cli.io.terminal import compiling_note, json_text, load, safe, set_default_model
from keras_attention.cli.io.text_files import check_no_file_names, standard_input_lines
from keras_attention.data.files import read_lines
from keras_attention.data.music.chorales import as_text, steps_of
from keras_attention.data.music.midi_files import MIDI_ENDINGS, STEPS_PER_BAR, notes_of, read_midi, write_midi
from keras_attention.support.atomic_files import check_place
from keras_attention.support.errors import UserError, counted, quoted
from keras_attention.zoo.registry import no_model, open_entry

BETWEEN = "\n---"  # separates answers
TEXT_TOKENS, MUSIC_TOKENS = 200, 1024  # default of --max-tokens; 16 bars of music
EXPLAINED_TOKENS = 50  # default of --max-tokens with --explain
PAGES = (".html", ".htm")


def generate(arguments):
    """Continues each prompt; a single answer per prompt is printed token by token, or music is written as a file."""
    music_files = [prompt for prompt in arguments.prompts if _is_midi(prompt) and os.path.isfile(prompt)]
    check_no_file_names([prompt for prompt in arguments.prompts if prompt not in music_files])
    _check_files(arguments)
    if arguments.model is None and (music_files or arguments.out):  # the default model writes texts
        raise no_model("generate")
    set_default_model(arguments, "generate")
    entry = open_entry(arguments.model, "generate")
    names = ("temperature", "top_k", "top_p", "repetition_penalty", "seed", "stop")
    sampling = {name: getattr(arguments, name) for name in names}
    generator = load(entry, "generate")
    if music_files or arguments.out:
        _check_music(generator, music_files or [arguments.out])
    sampling["max_tokens"] = arguments.max_tokens
    if arguments.max_tokens is None:
        text_tokens = EXPLAINED_TOKENS if arguments.explain else TEXT_TOKENS
        sampling["max_tokens"] = MUSIC_TOKENS if generator.is_music else text_tokens
    prompts = [as_text(read_midi(prompt)) if prompt in music_files else prompt for prompt in arguments.prompts] or [""]
    if arguments.explain:
        _explain(arguments, generator, prompts[0], sampling)
    elif arguments.out or arguments.attention:
        _write_files(arguments, generator, prompts[0], sampling)
    elif arguments.json:
        continuations = generator.generations(prompts, n=arguments.n, **sampling)
        compiling_note.clear()
        for prompt, answers in zip(prompts, continuations, strict=True):
            print(json_text({"prompt": prompt, "generations": [answer._asdict() for answer in answers]}))
    elif arguments.n == 1:
        for number, prompt in enumerate(prompts):
            _print_pieces(generator, prompt, sampling, number)
    else:
        continuations = generator.generations(prompts, n=arguments.n, **sampling)
        compiling_note.clear()
        texts = [
            prompt + answer.text for prompt, answers in zip(prompts, continuations, strict=True) for answer in answers
        ]
        print(f"{BETWEEN}\n".join(map(shown, texts)))


def _print_pieces(generator, prompt, sampling, number):
    """Prints the continuation of prompt `number` as it is generated."""
    pieces = generator.stream(prompt, **sampling)
    first = next(pieces, "")  # wrong settings are found before anything is printed
    compiling_note.clear(forever=True)
    print(BETWEEN * (number > 0) + "\n" * (number > 0), end="")
    print(shown(prompt + first), end="", flush=True)
    for piece in pieces:
        print(shown(piece), end="", flush=True)
    print(flush=True)


def _is_midi(name):
    return os.path.splitext(name)[1].lower() in MIDI_ENDINGS


def _check_files(arguments):
    """Raises UserError unless --out, --attention and --explain can be written, for one answer."""
    named = {f"--{name}": getattr(arguments, name) for name in ("out", "attention", "explain")}
    for flag, path in named.items():
        if path and (len(arguments.prompts) > 1 or arguments.n > 1):
            raise UserError(f"{flag} is for one prompt and one answer. Found: {flag} with several.")
        if path and arguments.json:
            raise UserError(f"{flag} writes a file: leave out --json.")
    check_explain(arguments, {flag: path for flag, path in named.items() if flag != "--explain"})
    if arguments.out and not _is_midi(arguments.out):
        raise UserError(f"--out is for a model of music and ends with .mid. Found: {quoted(arguments.out)}")
    if arguments.out:
        check_place(arguments.out)
    if arguments.attention:
        from keras_attention.visualize.patch_maps import check_view_path

        check_view_path(arguments.attention)


def _check_music(generator, files):
    if not generator.is_music:
        raise UserError(f"{files[0]}: the model writes texts, not music. Expected: a model by --data music.")


def _write_files(arguments, generator, prompt, sampling):
    """Writes one answer, with its prompt, as a MIDI file, and its attention weights as a page or picture."""
    page = bool(arguments.attention) and arguments.attention.lower().endswith(PAGES)
    if arguments.attention and not page and not generator.is_music:
        raise UserError(f"The attention of a text is a page (.html). Found: {quoted(arguments.attention)}")
    text = prompt + generator.generate(prompt, **sampling)
    compiling_note.clear(forever=True)
    if arguments.out:
        steps = steps_of(text)
        write_midi(steps, arguments.out)
        print(f"{arguments.out}: {len(steps) / STEPS_PER_BAR:.1f} bars, {counted(len(notes_of(steps)), 'note')}")
    else:
        print(shown(text))
    if arguments.attention:
        view = generator.attention_view(text) if page else generator.music_view(text)
        view.save(arguments.attention)
        print(f"keras-attention: {arguments.attention}: the attention weights of the text", file=sys.stderr)


def _explain(arguments, generator, prompt, sampling):
    """Prints one answer with its prompt, and writes which words decide each of its words."""
    explanation = generator.explain(prompt, contrast=contrast_of(arguments), **sampling)
    compiling_note.clear(forever=True)
    print(shown(prompt + explanation.answer))
    write_explanations(arguments.explain, [explanation])


def score(arguments):
    """Prints log probability, perplexity and number of tokens of each text, or of each of its tokens."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    check_no_file_names(arguments.texts, "--input")
    set_default_model(arguments, "generate")
    entry = open_entry(arguments.model, "score")
    encoding = arguments.encoding
    texts = arguments.texts or (
        read_lines(arguments.input, encoding) if arguments.input else standard_input_lines(encoding)
    )
    for text, scored in zip(texts, load(entry, "score").score(texts), strict=True):
        if arguments.json:
            print(json_text({"text": text, **scored._asdict()}))
        elif arguments.tokens:
            for token, log_prob in zip(scored.tokens, scored.log_probs, strict=True):
                print(f"{log_prob:.4f}\t{safe(token)}")
        else:
            perplexity = "-" if scored.perplexity is None else f"{scored.perplexity:.2f}"
            print(f"{scored.log_prob:.4f}\t{perplexity}\t{safe(text)}")


def shown(text):
    """The text without control characters, except line breaks."""
    return safe(text, keep="\n")
