"""Kinds of inputs: how a model's input is read from a file, from Python or from JSON, and which arrays it becomes.

A kind is one class in one file. It knows no network: a registration in `catalog/` names the kinds that a network reads
(`Task.inputs`), and makes the kind of a model from its `config.json` (`Task.input_of`). Commands, server, page, export
and cards ask the kind:

    name                 str, in `GET /v1/models` and in messages
    fields               dict from name to Field, the fields of a request; the first one is a list of all inputs
    widget               str, the part of the demo page in which a user gives an input, see `server/demo/inputs.js`
    noun                 str, an input in plain words, such as "picture"
    question             str, what a classifier of such inputs finds out, in plain words, for the page
    instruction          str, a sentence of the page on how to give an input
    is_file              bool. Whether an input is the content of a file. Then the command line takes names of files,
                         and the examples of a card are files of the entry
    body_bytes           int, the least limit of a request's body at the server, in bytes
    plural               str, the value of `finetune --kind`; for kinds with `is_file`
    drawing              str, how an input is drawn below its attention, see `visualize.patch_maps`; `drawn(value)`
                         gives the numbers; for kinds with `is_file`
    simple_model         str, the name of the model that fine-tuning compares with, which reads `features(values)`
    signature()          dict from name to (dtype and shape, meaning), the inputs of an exported model; for kinds with
                         `is_file`, `exported_arrays` is one example, `exported_shapes` a dict with the shapes of those
                         whose axes may have any size, None, and `from_exported` makes the network's inputs

Kinds with `is_file` become arrays by themselves, see `image.ImageInput`. Texts become token ids by the tokenizer of
their pipeline, see `inputs/token_sequences.py`.
"""

from typing import NamedTuple


class Field(NamedTuple):
    """One field of an HTTP request or of an answer.

    Attributes:
        kind: type, such as `list[str]` or `int | None`. In an answer also `[dict]`, a list of objects.
        meaning: str, the description in the API documentation.
        default: value used if a request omits the field; `...` if the field is required.
        low, high: bounds of a number, or of the length of a list.
    """

    kind: object
    meaning: str = ""
    default: object = ...
    low: float | None = None
    high: float | None = None
