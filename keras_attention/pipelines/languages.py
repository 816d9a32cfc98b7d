"""The languages of translators."""

import functools
import re

NO_LANGUAGE = {"und", "mul", "zxx"}  # codes of ISO 639: undetermined, several, none


@functools.cache
def language_code(name):
    """The code of a natural language, such as "de", from a code such as "de" or "pt-BR" or the English name of one.

    Returns:
        str; or None if it is no natural language, such as "iso", or `name` is None.
    """
    from babel import Locale

    names = Locale("en").languages
    code = re.split("[-_ ]", name or "")[0].lower()
    if code in names.keys() - NO_LANGUAGE:
        return code
    return next((code for code, its_name in names.items() if name and its_name == name.title()), None)
