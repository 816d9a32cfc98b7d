"""`keras-attention attention`."""

from keras_attention.cli.io.terminal import json_text, silent_libraries
from keras_attention.cli.translate import search_options
from keras_attention.errors import UserError
from keras_attention.visualize.pages import check_page_path
from keras_attention.whole_file import claim_place
from keras_attention.zoo.registry import open_entry

FLAGS = {"beam_size": "--beam"}  # options whose flag has another name


def attention(arguments):
    """Checks the output path, loads the model, and writes the attention page."""
    entry = open_entry(arguments.model)
    path = check_page_path(arguments.out)
    claim_place(path)
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    pipeline = load_pipeline(entry)
    options = {"target": arguments.target, "n_best": arguments.n_best if arguments.n_best != 1 else None}
    options |= search_options(arguments)
    options = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if name not in pipeline.view_options:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise UserError(f"{flag} does not work with {arguments.model}. Leave it out.")
    view = pipeline.attention_view(*pipeline.sides(arguments.text), **options)
    view.save(path)
    report = {"model": arguments.model, "page": str(path), "bytes": path.stat().st_size}
    print(json_text(report) if arguments.json else f"{path}: {report['bytes'] / 1e3:.0f} kB")
