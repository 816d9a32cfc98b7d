"""The attention page in a real browser: drawn, pointed at, used by keyboard, light and dark, narrow, printed."""

import base64

import numpy as np
import pytest
from browser import background, chromium, complaints, look, overflows

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
        look(driver)
        driver.get(path.as_uri())
        yield driver


def named(page, name):
    return page.find_element("id", name)


def token(page, at):
    return page.find_element("css selector", f'button[data-at="{at}"]')


def test_draws_every_token_cell_and_head(page, weights):
    assert [button.text for button in page.find_elements("css selector", ".lines .token")] == WRITTEN + READ
    assert len(page.find_elements("css selector", "#map td[data-at]")) == len(WRITTEN) * len(READ)
    assert len(page.find_elements("css selector", "#heads canvas")) == 6
    lines = page.find_elements("css selector", "#lines line")
    assert len(lines) == (weights.mean(axis=(0, 1)) >= 0.02).sum()
    assert complaints(page) == []


def test_a_click_shows_the_attention_of_a_token(page, weights):
    token(page, "row 1").click()
    mean = weights.mean(axis=(0, 1))[1]
    told = named(page, "told").text
    assert told.startswith(f"“Hund” attends most to “{READ[mean.argmax()]}” {100 * mean.max():.0f} %")
    assert token(page, "row 1").get_attribute("aria-pressed") == "true"
    token(page, "row 1").send_keys("\ue00c")  # Escape
    assert named(page, "told").text == ""


def test_the_keyboard_moves_through_the_heat_map_and_chooses_a_head(page, weights):
    cell = page.find_element("css selector", 'td[data-at="0 0"]')
    cell.send_keys("\ue014")  # right
    page.switch_to.active_element.send_keys("\ue015")  # down
    assert page.switch_to.active_element.get_attribute("data-at") == "1 1"
    assert named(page, "told").text.startswith("“Hund” attends to “dog”")
    head = page.find_elements("css selector", "#heads button")[4]
    head.send_keys("\ue007")  # Enter
    page.find_element("css selector", 'td[data-at="1 1"]').click()
    assert named(page, "told").text.endswith(f"{100 * weights[1, 1, 1, 1]:.0f} %")
    assert page.switch_to.active_element.get_attribute("data-at") == "1 1"


def test_another_answer(page):
    from selenium.webdriver.support.select import Select

    Select(named(page, "choose-answer")).select_by_visible_text("two")
    assert len(page.find_elements("css selector", "#map td[data-at]")) == 2 * len(READ)
    Select(named(page, "choose-answer")).select_by_visible_text("one")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_light_and_dark(page, scheme):
    for width in (360, 1200):
        look(page, width=width, scheme=scheme)
        page.refresh()
        assert not overflows(page)
        assert (sum(background(page)) < 200) == (scheme == "dark")
    look(page)


def test_prints_on_white_paper(page):
    look(page, scheme="dark")
    page.refresh()
    printed = base64.b64decode(page.print_page())
    assert printed.startswith(b"%PDF")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert sum(background(page)) == 3 * 255
    assert not named(page, "choices").is_displayed()
    look(page)
