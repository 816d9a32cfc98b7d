"""A real Chromium without a window, for the pages that people see."""

import contextlib
import shutil
import tempfile

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing of the browser's own may reach for the network, and it must start as root and without a GPU.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextlib.contextmanager
def chromium(downloads=None):
    """A selenium driver; the test is skipped where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        if downloads:
            options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
        chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield chrome
        finally:
            chrome.quit()


def set_window(driver, width=1200, height=900, scheme="light"):
    """Sets the size of the window in CSS pixels, and whether the user prefers light or dark."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def background(driver):
    """The red, green and blue of the page's ground."""
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]


def overflows(driver):
    """Whether the page is wider than its window."""
    return driver.execute_script("return document.documentElement.scrollWidth > innerWidth")


def complaints(driver):
    """What the browser's console says of errors."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
