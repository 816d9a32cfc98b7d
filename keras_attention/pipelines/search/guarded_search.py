"""Searches whose answers keep the items of their sentences: numbers, addresses, placeholders, tags and emoji."""

from keras_attention.pipelines.doubt import ITEMS, NUMBERS
from keras_attention.pipelines.items import ATTEMPTS, Mask, difference, guard, joined, names_differ, separated
from keras_attention.pipelines.marks import with_marks, word_alignment

REASON = {"numbers": NUMBERS, "items": ITEMS, None: None}


def guarded_answers(find, sentences, languages, has_attention, names=None):
    """Translates sentences, and searches again where a number changed or another item is missing.

    The model reads addresses and placeholders as short names, which it copies well, and no tags or emoji. If an item
    differs nevertheless, the model reads other names and other numbers in the next attempts. If no attempt keeps all
    items, the first answer stays, and is doubted.

    Args:
        find: callable (list of str, attention=bool) -> list of lists of Translation, best first. Without the second
            argument, the attention weights are those that the caller asked for.
        sentences: list of str.
        languages: pair of codes such as "en", of source and target.
        has_attention: bool, whether `find` can compute attention weights, which give places to inner tags.
        names: re.Pattern of names that stay as they are, too, or None.

    Returns:
        List of lists of Translation.
    """
    guards = [guard(sentence, names, languages) for sentence in sentences]
    masks = [mask_of(one, sentence) for one, sentence in zip(guards, sentences, strict=True)]

    def answers_to(positions, masks, hypotheses_of_all):
        """Restored hypotheses for sentences, searched again with attention where tags or emoji stand within."""
        aligned = [i for i in positions if has_attention and guards[i] and guards[i].has_inner_marks]
        weighted = dict(zip(aligned, find([masks[i].text for i in aligned], attention=True), strict=True))
        return {
            i: [
                restored_answer(guards[i], masks[i], sentences[i], one, weights, languages)
                for one, weights in zip(hypotheses, weighted.get(i, [None] * len(hypotheses)), strict=True)
            ]
            for i, hypotheses in zip(positions, hypotheses_of_all, strict=True)
        }

    everything = range(len(sentences))
    answers = answers_to(everything, masks, find([mask.text for mask in masks]))
    for attempt in range(1, ATTEMPTS):
        again = {i: guards[i].masked(attempt) for i in everything if guards[i] and _differs(answers[i][0])}
        again = {i: mask for i, mask in again.items() if mask and mask.pairs and not answers[i][0].truncated}
        if not again:
            break
        hypotheses_of_all = find([mask.text for mask in again.values()])
        for i, hypotheses in answers_to(list(again), again, hypotheses_of_all).items():
            if not _differs(hypotheses[0]):
                answers[i] = hypotheses
    return list(answers.values())


def mask_of(guard, sentence, attempt=0):
    """The Mask for a search for a sentence, without pairs if nothing is masked. `guard`: its Guard, or None."""
    plain = guard.plain if guard else sentence
    return (guard and guard.masked(attempt)) or Mask(plain, [], plain)


def _differs(answer):
    return answer.reason in (NUMBERS, ITEMS)


def restored_answer(guard, mask, sentence, answer, weights, languages):
    """A Translation with the items of its sentence; doubted if they differ. `weights`: the same, with attention."""
    if guard is None:
        reason, text = REASON[difference(sentence, answer.text, *languages)], answer.text
    else:
        text = guard.restored(answer.text, mask.pairs)
        reason = REASON[difference(guard.plain, text, *languages)]
        if guard.marks:
            alignment = weights and word_alignment(weights, answer.text, mask.text)
            text = guard.restored(answer.text, [(stand_in, joined(item)) for stand_in, item in mask.pairs])
            text = separated(with_marks(mask.plain, guard.marks, text, alignment))
            reason = reason or REASON[difference(guard.sentence, text, *languages)]
        if guard.names and names_differ(guard.plain, text, guard.names):
            reason = ITEMS
    if reason:
        return answer._replace(text=text, reason=reason, low_score=True)
    return answer._replace(text=text) if text != answer.text else answer
