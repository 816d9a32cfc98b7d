"""What a model may be used for, as far as the terms of its data say."""

import re
from typing import NamedTuple

OPEN = re.compile(
    r"\b(?:CC0|CC BY|Apache-2\.0|MIT|BSD|PDDL|GFDL|public domain|Unicode License|Python Software Foundation License)\b",
    re.IGNORECASE,
)
ATTRIBUTION = re.compile(r"\bCC BY\b")
NON_COMMERCIAL = re.compile(r"\bnon-?commercial|\bCC BY-NC|\bNC\b", re.IGNORECASE)
RESEARCH = re.compile(r"\bresearch\b", re.IGNORECASE)
DOUBTFUL = re.compile(r"\bunclear\b", re.IGNORECASE)
LICENCE_FILE = "LICENSE.txt"  # of an entry whose data bind the user of the model to a licence of their own
SAME = "as above"


class TermsOfUse(NamedTuple):
    """What a model may be used for.

    Attributes:
        purpose: "any purpose", "research and education", "non-commercial purposes", "what LICENSE.txt allows" if terms
            name this file of the entry, or "unclear" if data have no stated terms, unclear ones, or terms that are not
            known here.
        reasons: tuple of str, the names of the data that limit the purpose, or that must be named for any purpose.
    """

    purpose: str
    reasons: tuple[str, ...]

    def sentence(self):
        """One line for a card."""
        names = "; ".join(self.reasons)
        if self.purpose == ANY:
            return f"May be used for any purpose{f', with credit to the owners of: {names}' if names else ''}."
        if self.purpose == UNCLEAR:
            return f"The terms of these data are missing or unclear; ask their owners before commercial use: {names}."
        return f"May be used for {self.purpose} only, because of: {names}."


ANY, UNCLEAR, LICENSED = "any purpose", "unclear", f"what {LICENCE_FILE} allows"
PURPOSES = ("non-commercial purposes", "research and education", UNCLEAR, LICENSED, ANY)  # the strictest first


def purpose_of(terms):
    """The purpose that one text of terms allows, one of `PURPOSES`."""
    if NON_COMMERCIAL.search(terms):
        return PURPOSES[0]
    if RESEARCH.search(terms):
        return PURPOSES[1]
    if LICENCE_FILE in terms:
        return LICENSED
    return ANY if OPEN.search(terms) and not DOUBTFUL.search(terms) else UNCLEAR


def _short(name):
    """The name of a data set without what follows it, but with the model that it came through."""
    through = re.match(r"through `[^`]+`: ", name)
    rest = name[through.end() :] if through else name
    return (through.group() if through else "") + re.split(r"[:,]| \(", rest)[0]


def terms_of_use(data):
    """What may be done with a model that was trained on these data: what the strictest of their terms allow.

    Args:
        data: list of {"name": str, "terms": str}, see `card.REQUIRED`. An item with the terms "as above" was made
            from the one before.

    Returns:
        TermsOfUse. This reads the terms by their words, and is no legal advice.
    """
    items = [(_short(item["name"]), item["terms"]) for item in data if item["terms"].strip(" .") != SAME]
    purposes = {purpose_of(terms) for _, terms in items}
    purpose = next((purpose for purpose in PURPOSES if purpose in purposes), UNCLEAR)
    limiting = ATTRIBUTION.search if purpose == ANY else lambda terms: purpose_of(terms) == purpose
    return TermsOfUse(purpose, tuple(dict.fromkeys(name for name, terms in items if limiting(terms))))
