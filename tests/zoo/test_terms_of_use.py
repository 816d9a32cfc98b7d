import pytest

from keras_attention.zoo.terms_of_use import terms_of_use


def data(*terms):
    return [{"name": f"set {i}", "terms": term, "link": ""} for i, term in enumerate(terms)]


@pytest.mark.parametrize(
    ("terms", "purpose", "reasons"),
    [
        (["Apache-2.0"], "any purpose", ()),
        (["CC BY 2.0", "public domain in the USA"], "any purpose", ("set 0",)),
        (["CC BY-SA 3.0 / GFDL", "CC BY 4.0"], "any purpose", ("set 0", "set 1")),
        (["generated; CLDR under the Unicode License, Babel under BSD-3-Clause."], "any purpose", ()),
        (["Apache-2.0", "none stated; its authors ask to be cited"], "unclear", ("set 1",)),
        (["as stated by its owner"], "unclear", ("set 0",)),
        (["research use; cite them", "none stated"], "research and education", ("set 0",)),
        (["CC BY-NC 4.0", "research and education"], "non-commercial purposes", ("set 0",)),
        (["CC BY 2.0", "none stated; MRPC: for any non-commercial purpose"], "non-commercial purposes", ("set 1",)),
        (["research, non-commercial", "as above", "CC0"], "non-commercial purposes", ("set 0",)),
        (["CC BY 4.0; the rights in the lines are unclear"], "unclear", ("set 0",)),
        (["permit"], "unclear", ("set 0",)),
        (["MIT", "Llama 3.1 Community License, see LICENSE.txt"], "what LICENSE.txt allows", ("set 1",)),
        (["as LICENSE.txt says", "as stated by its owner"], "unclear", ("set 1",)),
        ([], "unclear", ()),
    ],
)
def test_the_strictest_terms_decide(terms, purpose, reasons):
    actual = terms_of_use(data(*terms))
    assert actual == (purpose, reasons)
    assert all(reason in actual.sentence() for reason in reasons)


def test_data_behind_a_start_is_named_with_it():
    items = [{"name": "through `some_model`: MRPC (Dolan 2005): pairs", "terms": "non-commercial", "link": ""}]
    assert terms_of_use(items).reasons == ("through `some_model`: MRPC",)


def test_sentences():
    assert terms_of_use(data("MIT")).sentence() == "May be used for any purpose."
    assert "non-commercial purposes only, because of: set 0." in terms_of_use(data("CC BY-NC-ND 3.0")).sentence()
    assert "missing or unclear" in terms_of_use(data("none stated")).sentence()
