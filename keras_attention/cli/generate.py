"""`keras-attention generate` and `score`: continues texts, and how probable a model finds them."""

from keras_attention.cli.io.terminal import compiling_note, json_text, load, safe
from keras_attention.cli.io.text_files import check_no_file_names, standard_input_lines
from keras_attention.data.files import read_lines
from keras_attention.support.errors import UserError
from keras_attention.zoo.registry import no_model, open_entry

BETWEEN = "\n---"  # separates answers


def generate(arguments):
    """Continues each prompt; a single answer per prompt is printed token by token."""
    if arguments.model is None:
        raise no_model("generate")
    check_no_file_names(arguments.prompts)
    entry = open_entry(arguments.model, "generate")
    names = ("max_tokens", "temperature", "top_k", "top_p", "repetition_penalty", "seed", "stop")
    sampling = {name: getattr(arguments, name) for name in names}
    prompts = arguments.prompts or [""]
    generator = load(entry, "generate")
    if arguments.json:
        found = generator.generations(prompts, n=arguments.n, **sampling)
        compiling_note.clear()
        for prompt, answers in zip(prompts, found, strict=True):
            print(json_text({"prompt": prompt, "generations": [answer._asdict() for answer in answers]}))
        return
    if arguments.n == 1:
        for number, prompt in enumerate(prompts):
            pieces = generator.stream(prompt, **sampling)
            first = next(pieces, "")  # wrong settings are found before anything is printed
            compiling_note.clear(forever=True)
            print(BETWEEN * (number > 0) + "\n" * (number > 0), end="")
            print(shown(prompt + first), end="", flush=True)
            for piece in pieces:
                print(shown(piece), end="", flush=True)
            print(flush=True)
        return
    found = generator.generations(prompts, n=arguments.n, **sampling)
    compiling_note.clear()
    texts = [prompt + answer.text for prompt, answers in zip(prompts, found, strict=True) for answer in answers]
    print(f"{BETWEEN}\n".join(map(shown, texts)))


def score(arguments):
    """Prints log probability, perplexity and number of tokens of each text, or of each of its tokens."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    if arguments.model is None:
        raise no_model("generate")
    check_no_file_names(arguments.texts, "--input")
    entry = open_entry(arguments.model, "score")
    encoding = arguments.encoding
    texts = arguments.texts or (
        read_lines(arguments.input, encoding) if arguments.input else standard_input_lines(encoding)
    )
    for text, found in zip(texts, load(entry, "score").score(texts), strict=True):
        if arguments.json:
            print(json_text({"text": text, **found._asdict()}))
        elif arguments.tokens:
            for token, log_prob in zip(found.tokens, found.log_probs, strict=True):
                print(f"{log_prob:.4f}\t{safe(token)}")
        else:
            perplexity = "-" if found.perplexity is None else f"{found.perplexity:.2f}"
            print(f"{found.log_prob:.4f}\t{perplexity}\t{safe(text)}")


def shown(text):
    """The text without control characters, except line breaks."""
    return safe(text, keep="\n")
