"""Chooses the model that answers a request: by its name, its task, its kind of input or its pair of languages."""

import asyncio

from keras_attention.pipelines.language_pairs import find_translator
from keras_attention.pipelines.languages import language_code
from keras_attention.server.gate import Refusal
from keras_attention.server.requests import TEXTS
from keras_attention.support.errors import UserError, quoted
from keras_attention.zoo.registry import DEFAULT_MODELS, named_by


class ModelRouter:
    """Chooses among the models of a server.

    Args:
        models: dict from name to ServedModel, the first ones being preferred.
    """

    def __init__(self, models):
        self._models = models

    async def choose(self, request, task, allow_secondary_task=False):
        """The ServedModel for a request; raises Refusal if there is none.

        Args:
            request: Request.
            task: str, the main task of the model, or None for any task.
            allow_secondary_task: bool. Whether models with another main task are allowed if they can do `task`, too.
        """
        if any(getattr(request, f"{side}_language", None) is not None for side in ("source", "target")):
            return await asyncio.to_thread(self._by_languages, request)  # the detector of languages takes a moment
        return self.by_task(request.model, task, allow_secondary_task, getattr(request, "input_field", TEXTS))

    def by_task(self, name, task, allow_secondary_task=False, input_field=TEXTS):
        """The ServedModel with this name, or the default of the task among the models that read this field.

        Args: see `choose`.
            name: str, see `model_named`; None for the default.
            input_field: str, the first field of the request, such as "texts".

        Raises:
            Refusal: with 404 if no model fits, 422 if the named one does not do the task.
        """
        able = [model for model in self._models.values() if task in (None, model.task)]
        if allow_secondary_task:
            able += [model for model in self._models.values() if task in model.tasks]
        if name is None:
            reading = [model for model in able if model.input_field == input_field]
            if reading:
                return self.default_model(task, input_field) or reading[0]
            this = f"{task or 'do this'}{f' with {input_field}' * bool(able)}"
            raise Refusal(404, f"No model of this server can {this}. /v1/models lists the models.")
        if (model := self.model_named(name)) not in able:
            raise Refusal(422, f"{model.name} does not {task}. /v1/models lists the models.")
        return model

    def model_named(self, name):
        """The ServedModel of a name or of a unique part of one; raises Refusal with 404 if there is none."""
        names = named_by(name, self._models)
        if len(names) > 1:
            raise Refusal(404, f"{quoted(name)} is a part of several names: {', '.join(names[:5])}. Write more of it.")
        if not names:
            raise Refusal(404, f"No model {quoted(name)} for this route. /v1/models lists the models.")
        return self._models[names[0]]

    def default_model(self, task, input_field=TEXTS):
        """The ServedModel that answers requests with this field for a task that name no model, or None.

        It is the first model with this main task that `--model` names, or else that of `DEFAULT_MODELS`.
        """
        able = [model for model in self._models.values() if task in (None, model.task) and not model.error]
        able = [model for model in able if model.input_field == input_field]
        best = [model for model in able if model.load is not None and model.name == DEFAULT_MODELS.get(task)]
        return next(iter(best + able), None)

    def input_field_of(self, name):
        """The first field of the input of the model with this name, or None if there is no such model."""
        try:
            return self.model_named(name).input_field if isinstance(name, str) else None
        except Refusal:
            return None

    def _by_languages(self, request):
        """The ServedModel that translates between the languages of a request; raises Refusal if there is none."""
        source, target = request.source_language, request.target_language
        if request.model is None:
            if target is None:
                raise Refusal(422, "`source_language` needs `target_language`, or name a `model`.")
            try:
                return self._models[find_translator(target, source, request.texts, self._pairs()).model]
            except UserError as error:
                raise Refusal(422, str(error)) from error
        model = self.by_task(request.model, "translate")
        known = model.pair and (model.pair.source, model.pair.target)
        for wanted, code in zip((source, target), known or (None, None), strict=True):
            if wanted is not None and language_code(wanted) != code:
                pair = f"from {known[0]} to {known[1]}" if known else "between no natural languages"
                reason = f"{model.name} translates {pair}. Received: {quoted(wanted)}."
                raise Refusal(422, f"{reason} Leave out `model` or the languages.")
        return model

    def language_pairs(self):
        """The best model for each pair of languages, for `GET /v1/models`: list of dicts, the best models first."""
        best = {}
        for pair in self._pairs():
            best.setdefault((pair.source, pair.target), pair.model)
        return [{"source_language": s, "target_language": t, "model": name} for (s, t), name in best.items()]

    def _pairs(self):
        """The Pairs of the models that are not known to be damaged, the best of each pair of languages first."""
        pairs = [model.pair for model in self._models.values() if model.pair and not model.error]
        return sorted(pairs, key=lambda pair: pair.rank)
