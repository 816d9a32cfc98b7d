"""The demo page with a model of series, in a real browser."""

import time

import numpy as np
import pytest
from browser import chromium, complaints, set_window
from inputs.test_series import classifier, series
from server.tiny_zoo import server_in_this_process

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    zoo = tmp_path_factory.mktemp("zoo")
    classifier().save(zoo / "lines")
    with chromium() as driver, server_in_this_process(zoo) as (url, _):
        set_window(driver)
        driver.get(url)
        yield driver


def until(page, condition):
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, f"{page.find_element('tag name', 'body').text}, {complaints(page)}"
        time.sleep(0.05)
    return value


def best(page):
    return page.execute_script("return document.querySelector('#answers .best .what')?.textContent")


def test_numbers_are_pasted_or_chosen_as_a_file(page, tmp_path):
    made = classifier()
    until(page, lambda: best(page) == made.classify(made.samples[0]))
    assert page.find_element("id", "series").is_displayed()
    assert page.find_elements("css selector", "#plot polyline")
    box, status = page.find_element("id", "text"), page.find_element("id", "status")
    for number, row in enumerate(series(9)):
        (tmp_path / f"{number}.csv").write_text("label," + ",".join(map(repr, row.tolist())))
        page.find_element("id", "numbers").send_keys(str(tmp_path / f"{number}.csv"))
        until(page, lambda row=row: best(page) == made.classify(row))
        assert np.allclose([float(one) for one in box.get_property("value").split(",")], row)
    box.clear()
    box.send_keys("1, 2, three")
    until(page, lambda: "three” is not a number" in status.text)
    box.clear()
    box.send_keys("1, 2, 4, 3")
    until(page, lambda: best(page) == made.classify([1, 2, 4, 3]))
    box.clear()
    box.send_keys("7")
    until(page, lambda: "one step" in status.text)
    button = page.find_elements("css selector", "#examples button")[1]
    button.click()
    until(page, lambda: best(page) == made.classify(made.samples[1]))
