"""Functions of higher rooms that lower rooms need: the lower room names the function, and `catalog` provides it.

So a network can load its trained weights, and the zoo can find published models, without importing the rooms above.
"""

from collections.abc import Callable

_provided: dict[str, Callable] = {}


def provide(function: Callable) -> None:
    """Offers a function under its name."""
    _provided[function.__name__] = function


def provided(name: str) -> Callable:
    """The function that was provided under this name.

    Raises:
        LookupError: if there is none.
    """
    if name not in _provided:
        raise LookupError(f"Nothing provides {name!r}. Provided: {', '.join(sorted(_provided)) or 'nothing'}")
    return _provided[name]
