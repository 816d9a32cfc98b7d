"""The models behind the routes: warmed, chosen by name, asked in threads."""

import gc
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from keras_attention.cores import available_cores
from keras_attention.serving import answers
from keras_attention.serving.refusal import Refusal
from keras_attention.serving.requests import AttentionRequest, check_limits
from keras_attention.serving.workers import Workers, let_python_go_first


class Server:
    """What the routes share.

    Args:
        models: dict from name to ServedModel.
        settings: ServerSettings.
        metrics: ServerMetrics.
    """

    def __init__(self, models, settings, metrics):
        self.models = models
        self.settings = settings
        self.metrics = metrics
        self.workers = Workers(settings.concurrency, settings.seconds)
        self.state = "warming"

    def warm(self):
        """Computes every shape of every model once, on all cores; ends early if the server stops."""
        steps = [step for model in self.models.values() for step in (*model.steps, partial(_look, model))]
        try:
            with ThreadPoolExecutor(available_cores()) as threads:
                for _ in threads.map(lambda step: step() if self.state == "warming" else None, steps):
                    pass
            if self.state == "warming":
                gc.collect()
                gc.freeze()  # what is loaded stays: no search for garbage among it while requests wait
                let_python_go_first()
                self.state = "ready"
        except Exception:
            self.state = "broken"  # and stays so: whoever looks at /ready starts it anew
            raise

    async def answer(self, function, request, task=None):
        """What a function of `answers` says to a request, computed in a thread, and the model's name."""
        if self.state != "ready":
            raise Refusal(503, f"The server is {self.state}: try again later.")
        check_limits(request, self.settings)
        model = self._model(request.model, task)
        return model.name, await self.workers.run(function, model.pipeline, request)

    def _model(self, name, task):
        able = [model for model in self.models.values() if task in (None, model.task)]
        if name is None and able:
            return able[0]
        if name not in self.models:
            raise Refusal(404, f"There is no model {name!r:.80} for this: see /v1/models.")
        if self.models[name] not in able:
            raise Refusal(422, f"{name} does not {task}: see /v1/models.")
        return self.models[name]


def _look(model):
    """Has a model look at its first example, if it has one."""
    if model.about["examples"] and model.about["attention"]:
        example = model.about["examples"][0]
        answers.attention(model.pipeline, AttentionRequest(text=example["source"], text_b=example.get("source_b")))
