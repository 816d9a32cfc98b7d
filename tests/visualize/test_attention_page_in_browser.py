"""The attention page in a real browser: drawn, pointed at, used by keyboard, light and dark, narrow, printed."""

import base64

import numpy as np
import pytest
from browser import background, chromium, complaints, overflows, set_window

from keras_attention.visualize.pages import AttentionMap, attention_page

pytestmark = pytest.mark.slow
READ = ["A", "dog", "犬", "كلب", "runs", ".", "</s>"]
WRITTEN = ["Ein", "Hund", "läuft", ".", "</s>"]


@pytest.fixture(scope="module")
def weights():
    random = np.random.default_rng(3).random((2, 3, len(WRITTEN), len(READ)))
    return random / random.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def page(weights, tmp_path_factory):
    """A browser on a page of two layers, three heads and two answers."""
    path = tmp_path_factory.mktemp("page") / "view.html"
    first = AttentionMap("cross-attention", weights, WRITTEN, READ, "translation", "source")
    second = AttentionMap("cross-attention", weights[:, :, :2], WRITTEN[:2], READ, "translation", "source")
    decision = [("good", 0.75), ("bad", 0.25)]
    attention_page([("one", [first]), ("two", [second])], "A dog runs.", "a note", decision).save(path)
    with chromium() as driver:
        set_window(driver)
        driver.get(path.as_uri())
        yield driver


def named(page, name):
    return page.find_element("id", name)


def token(page, at):
    return page.find_element("css selector", f'button[data-at="{at}"]')


def test_draws_every_token_cell_and_head(page, weights):
    assert names(page, ".lines .token") == WRITTEN + READ
    assert len(page.find_elements("css selector", "#map td[data-at]")) == len(WRITTEN) * len(READ)
    assert len(page.find_elements("css selector", "#heads canvas")) == 6
    lines = page.find_elements("css selector", "#lines line")
    assert len(lines) == (weights.mean(axis=(0, 1)) >= 0.02).sum()
    assert complaints(page) == []


def test_a_click_shows_the_attention_of_a_token(page, weights):
    token(page, "row 1").click()
    mean = weights.mean(axis=(0, 1))[1]
    shown = named(page, "sentence").text
    assert shown.startswith(f"“Hund” attends most to “{READ[mean.argmax()]}” {100 * mean.max():.0f} %")
    assert token(page, "row 1").get_attribute("aria-pressed") == "true"
    token(page, "row 1").send_keys("\ue00c")  # Escape
    assert named(page, "sentence").text == ""


def test_the_keyboard_moves_through_the_heat_map_and_chooses_a_head(page, weights):
    cell = page.find_element("css selector", 'td[data-at="0 0"]')
    cell.send_keys("\ue014")  # right
    page.switch_to.active_element.send_keys("\ue015")  # down
    assert page.switch_to.active_element.get_attribute("data-at") == "1 1"
    assert named(page, "sentence").text.startswith("“Hund” attends to “dog”")
    head = page.find_elements("css selector", "#heads button")[4]
    head.send_keys("\ue007")  # Enter
    page.find_element("css selector", 'td[data-at="1 1"]').click()
    assert named(page, "sentence").text.endswith(f"{100 * weights[1, 1, 1, 1]:.0f} %")
    assert page.switch_to.active_element.get_attribute("data-at") == "1 1"


def test_another_answer(page):
    from selenium.webdriver.support.select import Select

    Select(named(page, "choose-answer")).select_by_visible_text("two")
    assert len(page.find_elements("css selector", "#map td[data-at]")) == 2 * len(READ)
    Select(named(page, "choose-answer")).select_by_visible_text("one")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_light_and_dark(page, scheme):
    for width in (360, 1200):
        set_window(page, width=width, scheme=scheme)
        page.refresh()
        assert not overflows(page)
        assert (sum(background(page)) < 200) == (scheme == "dark")
    set_window(page)


def test_prints_on_white_paper(page):
    set_window(page, scheme="dark")
    page.refresh()
    printed = base64.b64decode(page.print_page())
    assert printed.startswith(b"%PDF")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert sum(background(page)) == 3 * 255
    assert not named(page, "choices").is_displayed()
    set_window(page)


@pytest.fixture(scope="module")
def pieces_page(tmp_path_factory):
    """A browser on a page of word pieces, with queries and keys of one layer and two heads."""
    pieces, random = ["▁Do", "gs", "▁bark", ".", "</s>"], np.random.default_rng(4)
    queries, keys = random.normal(size=(2, 1, 2, 5, 8)).astype("float32")
    exponentials = np.exp(queries @ keys.swapaxes(-1, -2) / 8**0.5)
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    attention = AttentionMap("self-attention", weights, pieces, pieces, queries=queries, keys=keys)
    with chromium() as driver:
        set_window(driver)
        yield driver, attention, tmp_path_factory.mktemp("pieces") / "view.html"


def names(page, selector):
    return [button.text for button in page.find_elements("css selector", selector)]


def opened(pieces_page, attention=None, title="Dogs bark."):
    driver, usual, path = pieces_page
    attention_page([("", [attention or usual])], title).save(path)
    driver.get(path.as_uri())
    return driver


def test_words_are_shown_until_pieces_are_asked_for(pieces_page):
    from selenium.webdriver.support.select import Select

    page, weights = opened(pieces_page), pieces_page[1].weights
    assert [button.text for button in page.find_elements("css selector", ".lines .token")] == 2 * [
        "Dogs",
        "bark.",
        "</s>",
    ]
    token(page, "row 0").click()
    merged = weights.mean(axis=(0, 1))[:2].mean(axis=0)
    best = max(("Dogs", merged[:2].sum()), ("bark.", merged[2:4].sum()), ("</s>", merged[4]), key=lambda one: one[1])
    assert named(page, "sentence").text.startswith(f"“Dogs” attends most to “{best[0]}” {100 * best[1]:.0f} %")
    Select(named(page, "choose-show")).select_by_visible_text("pieces")
    assert [
        button.text for button in page.find_elements("css selector", ".lines ol:first-child .token")
    ] == pieces_page[1].rows
    assert complaints(page) == []


def test_the_dimensions_of_a_head_add_up_to_its_weights(pieces_page):
    from selenium.webdriver.common.action_chains import ActionChains

    page, (_, attention, _) = opened(pieces_page), pieces_page
    assert "Choose a head" in named(page, "neurons-hint").text
    page.find_elements("css selector", "#heads button")[1].click()
    token(page, "row 1").click()
    query, keys = attention.queries[0, 1, 2], attention.keys[0, 1]  # the first piece of "bark."
    rows = [line.text.split() for line in page.find_elements("css selector", "#neurons tbody tr")][1:]
    expected = [f"{score:.2f}" for score in keys @ query / 8**0.5]
    assert [row[1] for row in rows] == expected
    np.testing.assert_allclose([float(row[2]) for row in rows], 100 * attention.weights[0, 1, 2], atol=0.8)
    product = page.find_elements("css selector", "#neurons tbody tr")[1].find_elements("css selector", "canvas")[1]
    ActionChains(page).move_to_element_with_offset(product, -product.size["width"] // 2 + 3, 0).click().perform()
    shown = named(page, "neuron").text
    assert shown.startswith("Dimension 1: query")
    assert shown.endswith(f"= {query[0] * keys[0, 0] / 8**0.5:.2f}")
    assert complaints(page) == []


def test_hundreds_of_words_flow_as_a_text_beside_a_picture(pieces_page):
    """They stood on the page three times, and what a tap said was out of sight."""
    words = [f"▁word{i}" for i in range(200)]
    weights = np.random.default_rng(5).dirichlet(np.ones(200), (1, 1, 200))
    title = " ".join(words).replace("▁", "")
    page = opened(pieces_page, AttentionMap("self-attention", weights, words, words), title)
    assert not page.find_elements("css selector", "#map td, #lines line")
    assert not named(page, "neurons-part").is_displayed()
    assert page.execute_script("return document.documentElement.scrollHeight") < 4000
    assert named(page, "title").text == f"{title[:120].rstrip()} …"
    assert names(page, ".lines .token") == [word[1:] for word in words]
    best = weights[0, 0, 3].argmax()
    token(page, "column 3").click()
    assert named(page, "sentence").text.startswith(f"“word3” attends most to “word{best}”")
    assert token(page, "column 3").get_attribute("aria-pressed") == "true"
    assert "rgb" in token(page, f"column {best}").get_attribute("style")
    page.find_element("css selector", "#map canvas").click()
    assert "attends to" in named(page, "sentence").text
    assert complaints(page) == []
    set_window(page, width=360)
    assert not overflows(page)
    token(page, "column 199").click()
    place = "return document.getElementById('sentence').getBoundingClientRect().top"
    assert page.execute_script(f"{place} >= 0 && document.documentElement.scrollTop > 0")
    set_window(page)


def test_a_long_text_beside_another_one_stands_on_the_page_with_it(pieces_page):
    rows, columns = ([f"▁{name}{i}" for i in range(80)] for name in "rc")
    weights = np.random.default_rng(5).dirichlet(np.ones(80), (1, 1, 80))
    page = opened(pieces_page, AttentionMap("cross-attention", weights, rows, columns))
    assert names(page, ".lines .token") == [name[1:] for name in rows + columns]
    token(page, "row 7").click()
    assert named(page, "sentence").text.startswith("“r7” attends most to “c")
