"""`keras-attention attention`."""

from keras_attention.cli.io.printing import json_text
from keras_attention.cli.io.silence import silent_libraries
from keras_attention.cli.translate import search_options
from keras_attention.errors import UserError
from keras_attention.visualize.attention_page import check_page_path
from keras_attention.zoo.registry import find_entry


def attention(arguments):
    """Checks the output path, loads the model, and writes the attention page."""
    folder = find_entry(arguments.model)
    path = check_page_path(arguments.out)
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline
        from keras_attention.pipelines.translator import Translator

    pipeline = load_pipeline(folder)
    if isinstance(pipeline, Translator):
        options = {"target": arguments.target, "n_best": arguments.n_best, **search_options(arguments)}
        view = pipeline.attention_view(arguments.text, **options)
    else:
        _check(arguments)
        view = pipeline.attention_view(*arguments.text.split("\t"))
    view.save(path)
    report = {"model": arguments.model, "page": str(path), "bytes": path.stat().st_size}
    print(json_text(report) if arguments.json else f"{path}: {report['bytes'] / 1e3:.0f} kB")


def _check(arguments):
    """Raises UserError for translation options, or more than two texts, with a model that does not translate."""
    given = {"--target": arguments.target, "--n-best": arguments.n_best > 1, "--beam": arguments.beam}
    given |= {"--max-length": arguments.max_length, "--length-penalty": arguments.length_penalty}
    given |= {"--coverage-penalty": arguments.coverage_penalty}
    wrong = [name for name, value in given.items() if value is not None and value is not False]
    if wrong:
        raise UserError(f"{wrong[0]} works only with translation models. Leave it out.")
    if arguments.text.count("\t") > 1:
        raise UserError(
            f"A text pair needs exactly one tab between its texts. Tabs found: {arguments.text.count(chr(9))}"
        )
