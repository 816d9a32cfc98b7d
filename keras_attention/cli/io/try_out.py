"""Shows the stored model at work at the end of a recipe."""

import select
import sys


def typed_lines(prompt):
    """Yields each line from the keyboard, or from what is piped in by now, until an empty one or the end.

    Args:
        prompt: str, shown where a person types.
    """
    while True:
        if sys.stdin is None or sys.stdin.closed:
            return
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        elif not select.select([sys.stdin], [], [], 0.5)[0]:  # a pipe that nobody writes to: do not wait for ever
            return
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


SHOWN = 5


def try_out(folder, data, ask):
    """Loads an entry back, shows what it does, draws where it looked, and answers what is typed.

    Args:
        folder: Path of the entry. The picture gets its name with "_attention.png".
        data: TranslationData; the first test sentences are translated.
        ask: bool, whether to translate what is typed.
    """
    from keras_attention.pipelines.base import load_translator
    from keras_attention.visualize.heatmaps import attention_heatmap

    translator = load_translator(folder)
    texts = data.test[0][:SHOWN]
    answers = [best for best, *_ in translator.hypotheses(texts, attention=translator.has_attention)]
    for text, answer in zip(texts, answers, strict=True):
        print(f"{text}  ->  {answer.text}")
    if translator.has_attention:
        picture = folder.with_name(folder.name + "_attention.png")
        attention_heatmap(answers[0].attention, answers[0].source_tokens, answers[0].tokens, picture)
        print(f"Where it looked while writing the first: {picture}")
    dates = data.target_language == "iso"
    prompt = f"A {'date in any of these languages' if dates else 'sentence'} (empty line to end): "
    for text in typed_lines(prompt) if ask else ():
        best = translator.hypotheses(text)[0][0]
        doubt = f"   (unsure{': is this a date?' * dates})" * best.low_score
        print(f"{text}  ->  {best.text}{doubt}", flush=True)
