"""Engines that take turns on the same cores, each in a process of its own."""

import multiprocessing
import resource


class Turns:
    """Starts one process for each engine; the engines compute their tasks one at a time.

    Args:
        kinds: dict from a name to a class, whose objects are called with a task and return a picklable value.
        arguments: dict from a name to the arguments of its class.
    """

    def __init__(self, kinds, arguments):
        context = multiprocessing.get_context("spawn")  # the engines inherit nothing from this process
        self.pipes, self.processes = {}, []
        for name, kind in kinds.items():
            self.pipes[name], theirs = context.Pipe()
            self.processes.append(context.Process(target=_serve, args=(kind, arguments[name], theirs), daemon=True))
            self.processes[-1].start()
            theirs.close()  # so that the end of that process ends the wait for its answer

    def __iter__(self):
        return iter(self.pipes)

    def ask(self, name, task):
        """The result of an engine for a task (not None)."""
        self.pipes[name].send(task)
        return self.pipes[name].recv()

    def close(self):
        """Ends the processes. Returns a dict from each name to its peak memory in megabytes."""
        peaks = {name: self.ask(name, None) for name in self.pipes}
        for process in self.processes:
            process.join()
        return peaks


def peak_memory():
    """The largest memory this process has had so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _serve(kind, arguments, pipe):
    engine = kind(*arguments)
    for task in iter(pipe.recv, None):
        pipe.send(engine(task))
    pipe.send(peak_memory())
