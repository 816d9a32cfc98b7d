"""`keras-attention generate`, `score` and `fill-mask`: texts of a language model, and the probability of texts."""

from keras_attention.cli.io.many_texts import many_texts
from keras_attention.cli.io.terminal import json_text, safe, silent_libraries
from keras_attention.cli.io.text_files import standard_input_lines
from keras_attention.data.files import read_lines
from keras_attention.errors import BAD_USAGE, UserError
from keras_attention.zoo.registry import open_entry

BETWEEN = "\n---"  # separates answers


def generate(arguments):
    """Continues each prompt; a single answer per prompt is printed token by token."""
    entry = open_entry(arguments.model, "generate")
    names = ("max_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "seed", "stop")
    sampling = {name: getattr(arguments, name) for name in names}
    prompts = arguments.prompts or [""]
    generator = load(entry, "generate")
    if arguments.json:
        for prompt, answers in zip(prompts, generator.generations(prompts, n=arguments.n, **sampling), strict=True):
            print(json_text({"prompt": prompt, "generations": [answer._asdict() for answer in answers]}))
        return
    if arguments.n == 1:
        for number, prompt in enumerate(prompts):
            pieces = generator.stream(prompt, **sampling)
            first = next(pieces, "")  # wrong settings are found before anything is printed
            print(BETWEEN * (number > 0) + "\n" * (number > 0), end="")
            print(shown(prompt + first), end="", flush=True)
            for piece in pieces:
                print(shown(piece), end="", flush=True)
            print(flush=True)
        return
    found = generator.generations(prompts, n=arguments.n, **sampling)
    texts = [prompt + answer.text for prompt, answers in zip(prompts, found, strict=True) for answer in answers]
    print(f"{BETWEEN}\n".join(map(shown, texts)))


def score(arguments):
    """Prints log probability, perplexity and number of tokens of each text, or of each of its tokens."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    entry = open_entry(arguments.model, "score")
    texts = arguments.texts or (read_lines(arguments.input) if arguments.input else standard_input_lines())
    for text, found in zip(texts, load(entry, "score").score(texts), strict=True):
        if arguments.json:
            print(json_text({"text": text, **found._asdict()}))
        elif arguments.tokens:
            for token, log_prob in zip(found.tokens, found.log_probs, strict=True):
                print(f"{log_prob:.4f}\t{safe(token)}")
        else:
            perplexity = "-" if found.perplexity is None else f"{found.perplexity:.2f}"
            print(f"{found.log_prob:.4f}\t{perplexity}\t{safe(text)}")


def fill_mask(arguments):
    """Prints the best fillings of each text, one per line: joint probability of the words, and the text.

    Returns:
        int, 2 if a text could not be answered, else 0. Each such text is reported on standard error.
    """
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    entry = open_entry(arguments.model, "fill-mask")
    options, code = {"top_k": arguments.top, "max_pieces": arguments.pieces}, 0
    with many_texts(arguments, entry.folder) as job:
        filler = load(entry, "fill-mask")
        filler.fill_mask([], **options)  # raises an error if an option is out of range
        for window in job.windows():
            lines, truncated, notes = [], [], []
            for number, text in enumerate(window.texts, start=window.first):
                try:
                    fillings = filler.fill_mask(text, **options)
                except UserError as error:
                    code = BAD_USAGE
                    notes.append(f"text {number}: {error}")
                    truncated.append(False)
                    continue
                lines += _fillings(text, fillings, arguments.json)
                truncated.append(fillings[0].truncated)
            job.write(lines, truncated, notes)
    return code


def _fillings(text, fillings, as_json):
    if as_json:
        return [json_text({"text": text, "fillings": [filling._asdict() for filling in fillings]})]
    return [f"{filling.score:.4f}\t{filling.text}" for filling in fillings]


def shown(text):
    """The text without control characters, except line breaks."""
    return safe(text, keep="\n")


def load(entry, task):
    """The language model of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, task)
