"""`keras-attention evaluate`."""

import json

from keras_attention.commands import translate
from keras_attention.commands.progress import ProgressLine
from keras_attention.data.parallel_text import read_parallel
from keras_attention.training import translation_metrics as metrics
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.finding import find_entry

LENGTH_EDGES = (6, 11, 16, 21, 31)  # words


def evaluate(arguments):
    """Translates the source file and compares with the target file."""
    folder = find_entry(arguments.model)
    sources, references = read_parallel(arguments.source, arguments.target)
    config = read_entry(folder).config
    progress = ProgressLine()
    answers = translate.load(folder).hypotheses(sources, progress=progress, **translate.search_options(arguments))
    outputs = [best.text for best, *_ in answers]
    report = {
        "model": arguments.model,
        "sentences": len(sources),
        "exact_match": 100.0 * sum(map(str.__eq__, outputs, references)) / len(outputs),
        "bleu_tradition_a": metrics.bleu_tradition_a(outputs, references, config["target_language"])._asdict(),
        "bleu_tradition_b": metrics.bleu_tradition_b(outputs, references)._asdict(),
        "chrf": metrics.chrf(outputs, references)._asdict(),
        "bleu_by_source_length": [
            row._asdict()
            for row in metrics.bleu_by_source_length(outputs, references, sources, LENGTH_EDGES)
            if row.sentences
        ],
    }
    print(json.dumps(report, indent=1, ensure_ascii=False) if arguments.json else _as_text(report))


def _as_text(report):
    """The report as lines; no score without its signature."""
    names = {
        "bleu_tradition_a": "BLEU A (lower-cased, Moses tokens)",
        "bleu_tradition_b": "BLEU B (cased, detokenised)",
        "chrf": "chrF2",
    }
    lines = [f"{report['sentences']} sentences, {report['exact_match']:.2f} % exactly as in the target file"]
    lines += [f"{name:35} {report[key]['score']:6.2f}  {report[key]['signature']}" for key, name in names.items()]
    lines += ["", "source words  sentences  BLEU B"]
    for row in report["bleu_by_source_length"]:
        words = f"{row['at_least']}+" if row["less_than"] is None else f"{row['at_least']}-{row['less_than'] - 1}"
        lines.append(f"{words:>12}  {row['sentences']:9}  {row['bleu']:6.2f}")
    return "\n".join(lines)
