"""Generates CARD.md from metrics.json, and checks metrics.json."""

import re

from keras_attention.support.errors import EntryError
from keras_attention.zoo.schema import architecture_of, check_fields, check_value, number, text, whole
from keras_attention.zoo.terms_of_use import terms_of_use

# The keys of metrics.json that a card needs, with their meaning.
REQUIRED = {
    "description": "str, one or two sentences",
    "data": 'list of {"name": str, "terms": str, "link": str or ""}',
    "command": "str, the command that trained the model",
    "commit": "str, the commit it ran at",
    "hardware": "str",
    "minutes": "float, training time",
    "seeds": "list of int",
    "parameters": "int",
    "scores": 'list of {"set": str, "metric": str, "value": float, "signature": str}',
    "limits": "list of str",
    "examples": 'list of {"source": str, "output": str}; a source is a text or the name of a file of the entry',
}
# Optional keys that a card shows.
OPTIONAL = {
    "scores_note": "str, stands in place of scores that were not measured",
    "source": "str, the published checkpoint that was converted, with its commit",
    "loaded_as": "str, what `keras_attention.load` is given instead of the entry's name",
}
MAX_CARD_EXAMPLES = 3
NO_SCORES = "None were measured."


def card_text(name, config, metrics):
    """The text of CARD.md.

    Args:
        name: str, the entry's name.
        config: dict, the entry's configuration.
        metrics: dict with at least the keys of `REQUIRED`. Optional: "tables", a list of {"title": str, "columns":
            list of str, "rows": list of lists} and "pictures", a list of {"file": str, "caption": str}; "low_score",
            {"set": str, "sentences": int, "share": float, "inputs": str}, on how many of which inputs ("sentences" if
            missing) a `low_score_threshold` was chosen, and the share of them below it; those of `OPTIONAL`. Other
            keys, such as "training" with the recipe's settings, stay in metrics.json and are not shown.

    Returns:
        str, Markdown.

    Raises:
        EntryError: if `metrics` lacks a key.
    """
    for key, meaning in REQUIRED.items():
        if key not in metrics:
            raise EntryError(f"metrics.json of {name} lacks {key!r}: {meaning}.")
    architecture, called = architecture_of(config), metrics.get("loaded_as", name)
    sections = [
        f"# {name}\n\n{metrics['description']}\n\n{architecture.task.reads(config)}, {metrics['parameters']:,} "
        f"parameters, `{architecture.name}`{architecture.detail(config['model'])}.\n\n"
        f"{terms_of_use(metrics['data']).sentence()}",
        "## Scores\n\n" + (_scores(metrics["scores"]) if metrics["scores"] else metrics.get("scores_note", NO_SCORES)),
        *(
            f"## {table['title']}\n\n" + table_text(table["columns"], table["rows"])
            for table in metrics.get("tables", ())
        ),
        *(f"![{picture['caption']}]({picture['file']})" for picture in metrics.get("pictures", ())),
        "## Data\n\n" + "\n".join(map(_data, metrics["data"])),
        "## Training\n\n" + _training(metrics),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in [*metrics["limits"], *_low_score(config, metrics)]),
        "## Example\n\n" + _example(called, architecture.task, config, metrics["examples"][:MAX_CARD_EXAMPLES]),
    ]
    return "\n\n".join(sections) + "\n"


def first_sentence(description):
    """The first sentence of a description, with its full stop or question mark."""
    return re.split(r"(?<=[.?!]) ", description)[0]


def _data(data):
    return f"- {data['name']}: {data['terms']}" + (f" <{data['link']}>" if data["link"] else "")


def table_text(columns, rows):
    """A Markdown table; floats with two decimals."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value):
    shown = f"{value:.2f}" if isinstance(value, float) else str(value)
    return " ".join(shown.split()).replace("|", "\\|")


def _scores(scores):
    rows = [[score["set"], score["metric"], score["value"], f"`{score['signature']}`"] for score in scores]
    return table_text(["set", "metric", "score", "signature"], rows)


def _low_score(config, metrics):
    """A list with the sentence about `low_score`, or an empty list."""
    rule, threshold = metrics.get("low_score"), config.get("low_score_threshold")
    if not rule or threshold is None:
        return []
    return [
        f"An answer is marked as `low_score` if the mean log probability of its tokens is below {threshold:.3f} "
        f"(`low_score_threshold`). {rule['share']:.1%} of the {rule['sentences']:,} {rule.get('inputs', 'sentences')} "
        f"of {rule['set']} are below."
    ]


def _training(metrics):
    command = f"```\n{metrics['command']}\n```\n\n"
    if not metrics["seeds"]:
        return f"{command}At commit `{metrics['commit']}`. Nothing was trained."
    seeds = ", ".join(map(str, metrics["seeds"]))
    where = f"{metrics['minutes']:.1f} minutes on {metrics['hardware']}"
    return f"{command}At commit `{metrics['commit']}`, seed {seeds}, {where}."


def _example(name, task, config, examples):
    method = task.method
    if method == "encode":  # vectors are too long for a card; the outputs of the examples are cosines
        texts = [examples[0]["source"], examples[0]["source_b"]] if examples else list(TEXTS)
        call = f"vectors = keras_attention.load({name!r}).encode({texts!r}).pooled"
        shape = f"an array ({len(texts)}, {config['model']['hidden_dim']})"
        facts = f". Their cosine is {examples[0]['output']}" if examples else ""
        others = [f"{example['source_b']!r}: {example['output']}" for example in examples[1:]]
        facts += f"; to {', '.join(others)}" if others else ""
        return f"```python\n{call}\n# {shape}{facts}\n```"
    sides = [
        [example[side] for example in examples] for side in ("source", "source_b") if side in (examples or [{}])[0]
    ]
    call = f"keras_attention.load({name!r}).{method}({', '.join(map(repr, sides))})"
    if task.input(config).is_file:
        call += "  # files of this entry"
    return f"```python\n{call}\n# {[example['output'] for example in examples]!r}\n```"


TEXTS = ("How old are you?", "What is your age?")
MAX_EXAMPLES = 1000

_TEXT = text(r"(?s).*", "a text")
_VALUES = {
    "description": _TEXT,
    "command": _TEXT,
    "commit": _TEXT,
    "hardware": _TEXT,
    "minutes": number(0, 1e9),
    "parameters": whole(0, 1 << 40),
}
_SCORE = {"set": _TEXT, "metric": _TEXT, "value": number(-1e300, 1e300), "signature": _TEXT}
_LOW_SCORE = {"set": _TEXT, "sentences": whole(0, 1 << 40), "share": number(0, 1), "inputs": _TEXT}


def check_metrics(metrics, where):
    """Checks the values of `metrics.json` that are shown or reproduced.

    Args:
        metrics: dict.
        where: str, the name of the file in errors.

    Returns:
        The same dict.

    Raises:
        EntryError: names the first key that is missing or differs from `REQUIRED`.
    """
    for name, meaning in REQUIRED.items():
        if name not in metrics:
            raise EntryError(f"{where} lacks {name!r}: {meaning}.")
    for name, field in _VALUES.items():
        check_value(name, metrics[name], field, where)
    for name in OPTIONAL.keys() & metrics.keys():
        check_value(name, metrics[name], _TEXT, where)
    if "low_score" in metrics:
        check_fields(metrics["low_score"], _LOW_SCORE, tuple(set(_LOW_SCORE) - {"inputs"}), f"{where}, low_score")
    scores = metrics["scores"]
    if not isinstance(scores, list) or not all(
        isinstance(score, dict) and set(score) == set(_SCORE) for score in scores
    ):
        raise EntryError(f"{where}: scores must be a list of objects with {', '.join(_SCORE)}.")
    for score in scores:
        for name, field in _SCORE.items():
            check_value(name, score[name], field, f"{where}, scores")
    if not _are_examples(metrics["examples"]):
        raise EntryError(f"{where}: examples must be a list of source and output texts.")
    return metrics


def _are_examples(examples):
    """Whether it is a list of {"source": str, "output": str}; for text pairs, all of them also have "source_b"."""
    if not isinstance(examples, list) or len(examples) > MAX_EXAMPLES:
        return False
    for example in examples:
        if not isinstance(example, dict) or set(example) - {"source_b"} != {"source", "output"}:
            return False
        if not all(isinstance(value, str) for value in example.values()):
            return False
    return len({"source_b" in example for example in examples}) < 2
