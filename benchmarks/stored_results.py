"""Results of several trainings in one file of JSON, so that a command that was interrupted goes on after the last."""

import json
import statistics

from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError


def stored_results(path, settings):
    """The results of finished trainings: a dict from variant to dict from seed to measurements.

    Args:
        path: Path of the file, which need not exist.
        settings: dict of JSON types, what must not change between the trainings of one file.

    Raises:
        UserError: if the file has other contents, or results of other settings.
    """
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        before, results = stored["settings"], stored["results"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a file of this command. Choose another --out.") from error
    for name, value in settings.items():
        if before.get(name) != value:
            raise UserError(
                f"{path} has results with {name}={before.get(name)}; the command has {name}={value}. "
                "Give the same settings, or another --out."
            )
    return results


def store_results(path, settings, results):
    """Writes what `stored_results` reads."""
    with whole_file(path) as file:
        json.dump({"settings": settings, "results": results}, file, indent=1)


def cell(values, digits=1):
    """Mean and range as text."""
    texts = [f"{value:.{digits}f}" for value in (statistics.mean(values), min(values), max(values))]
    return texts[0] if len(values) == 1 else f"{texts[0]} ({texts[1]} to {texts[2]})"
