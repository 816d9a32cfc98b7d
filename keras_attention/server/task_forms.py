"""The bodies of requests and answers of a task, made from the fields that its pipelines and kinds of input declare."""

import typing
from typing import Annotated, NamedTuple, Union

from pydantic import Discriminator, Field, Tag, create_model

from keras_attention.server.requests import TEXTS, Request

FORM = "form:"  # begins the name of a form in the places of errors, which do not show it


class Form(NamedTuple):
    """The JSON form of the requests to a task, for all pipelines whose kinds of input have the same first field.

    Attributes:
        input_field: str, this field, such as "texts" or "images".
        is_file: bool. Whether inputs are files.
        request_fields, answer_fields, choice_fields, reply_fields: dict from name to `inputs.Field`, see `Pipeline`.
        meaning: str, the first line of a pipeline's docstring.
    """

    input_field: str
    is_file: bool
    request_fields: dict
    answer_fields: dict
    choice_fields: dict
    reply_fields: dict
    meaning: str


def forms_of(tasks):
    """The Forms of registered `schema.Task` objects: dict from each task to a list, in the order of registration."""
    forms: dict[str, dict[str, Form]] = {}
    for task in tasks:
        pipeline = task.pipeline_class()
        for kind in task.inputs if pipeline.request_fields else ():
            of_task, name = forms.setdefault(task.name, {}), next(iter(kind.fields))
            new = Form(name, kind.is_file, {}, {}, {}, {}, pipeline.__doc__.partition("\n")[0])
            form = of_task.setdefault(name, new)
            form.request_fields.update(pipeline.request_fields_for(kind))
            form.answer_fields.update(pipeline.answer_fields)
            form.choice_fields.update(pipeline.choice_fields)
            form.reply_fields.update(pipeline.reply_fields)
    return {name: list(of_task.values()) for name, of_task in forms.items()}


def request_type(task, forms, field_of):
    """The type of the body of a request to /v1/TASK: a model, or the union of the models of several Forms.

    Args:
        task: str.
        forms: list of Form.
        field_of: callable(name) -> the first field of the input of the model with this name, or None.
    """
    models = [request_model(task, form) for form in forms]
    if len(models) == 1:
        return models[0]
    fields = [form.input_field for form in forms]

    def tag(body):
        """The form of the model that is named, else the form whose first field is there, else the first one."""
        body = body if isinstance(body, dict) else {}
        named = field_of(body.get("model"))
        present = [field for field in fields if field in body]
        return FORM + next((field for field in (named, *present) if field in fields), fields[0])

    tagged = tuple(Annotated[model, Tag(FORM + field)] for model, field in zip(models, fields, strict=True))
    return Annotated[Union[tagged], Discriminator(tag)]  # noqa: UP007  (a tuple of types)


def request_model(task, form):
    """The body of a request to /v1/TASK, from the `request_fields` of a Form or of a pipeline's class."""
    field = getattr(form, "input_field", TEXTS)
    name = f"{_title(task)}{'' if field == TEXTS else _title(field)}Request"
    fields = {**form.choice_fields, **form.request_fields}
    model = create_model(name, __base__=Request, **_typed_fields(task, fields))
    model.input_field, model.is_file = field, getattr(form, "is_file", False)
    return model


def reply_model(task, pipeline):
    """The body of the answer, from the fields of a Form or of a pipeline's class."""
    one = create_model(f"{_title(task)}Answer", **_typed_fields(task, pipeline.answer_fields))
    reply_fields = _typed_fields(task, pipeline.reply_fields)
    return create_model(f"{_title(task)}Reply", model=(str, ...), **reply_fields, answers=(list[one], ...))


def _title(task):
    return "".join(word.capitalize() for word in task.split("-"))


def _typed_fields(task, fields):
    """The fields of a pipeline as pydantic fields: dict from name to (type, Field)."""
    typed = {}
    for name, field in fields.items():
        kind = field.kind
        if isinstance(kind, list):  # of objects
            kind = list[create_model(f"{_title(task)}{name.capitalize()}", **_typed_fields(task, kind[0]))]
        names = ("min_length", "max_length") if typing.get_origin(kind) is list else ("ge", "le")
        bounds = {name: bound for name, bound in zip(names, (field.low, field.high), strict=True) if bound is not None}
        typed[name] = (kind, Field(field.default, description=field.meaning or None, **bounds))
    return typed
