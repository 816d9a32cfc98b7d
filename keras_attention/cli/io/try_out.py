"""Shows example answers of the trained model at the end of a recipe, and answers typed input."""

import select
import sys


def typed_lines(prompt):
    """Yields lines from the keyboard, or those already in the pipe, until an empty line or the end.

    Args:
        prompt: str, shown on a terminal.
    """
    while True:
        if sys.stdin is None or sys.stdin.closed:
            return
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        elif not select.select([sys.stdin], [], [], 0.5)[0]:  # a pipe without a writer: do not wait forever
            return
        line = sys.stdin.readline().strip()
        if not line:
            return
        yield line


SHOWN = 5


def try_out(folder, data, scores, ask):
    """Prints scores, loads an entry, shows translations, draws an attention map, and translates typed input.

    Args:
        folder: Path of the entry. The picture gets its name with "_attention.png".
        data: TranslationData; the first test sentences are translated.
        scores: list of dict, see `write_trained`.
        ask: bool, whether to translate what is typed.
    """
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.visualize.heatmaps import attention_heatmap

    for score in scores:
        print(f"{score['set']}: {score['metric']} {score['value']:.2f}  ({score['signature']})")
    translator = load_pipeline(folder, "translate")
    texts = data.test[0][:SHOWN]
    answers = [best for best, *_ in translator.hypotheses(texts, attention=translator.has_attention)]
    for text, answer in zip(texts, answers, strict=True):
        print(f"{text}  ->  {answer.text}")
    if translator.has_attention:
        picture = folder.with_name(folder.name + "_attention.png")
        attention_heatmap(answers[0].attention, answers[0].source_tokens, answers[0].tokens, picture)
        print(f"Attention weights of the first translation: {picture}")
    dates = data.target_language == "iso"
    prompt = f"A {'date in any of these languages' if dates else 'sentence'} (empty line to end): "
    for text in typed_lines(prompt) if ask else ():
        best = translator.hypotheses(text)[0][0]
        doubt = f"   (unsure{': is this a date?' * dates})" * best.low_score
        print(f"{text}  ->  {best.text}{doubt}", flush=True)
