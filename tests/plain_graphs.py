"""How TensorFlow runs the graphs of the tests, in this process and in those that it starts."""

import sys


def run_graphs_as_traced():
    """Tests trace many small graphs and run each a few times; to optimize them takes a quarter of their time."""
    tensorflow = sys.modules.get("tensorflow")
    if hasattr(tensorflow, "config"):  # neither missing nor hidden by a test
        tensorflow.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


class GraphsOfThisProcess:
    """A compile cache in memory: pipelines of equal models, such as the tiny ones, trace and compile once."""

    def __init__(self):
        self._graphs = {}
        self.read, self.write = self._graphs.get, self._graphs.__setitem__

    def keep(self):
        return True
