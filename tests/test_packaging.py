"""Wheel and sdist: they hold the package and the zoo, and the command works from any folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from zoo.tiny_entry import write_tiny_entry

from keras_attention import __version__
from keras_attention.visualize.figures import FONT_PACKAGES

ROOT = Path(__file__).parents[1]
FILES = (
    "setup.py",
    "pyproject.toml",
    "MANIFEST.in",
    "mkdocs.yml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "Dockerfile",
    ".dockerignore",
)
FOLDERS = ("keras_attention", "saved_models", "docs", "course", "recipes", "tests", "benchmarks", ".ci")
SHIPPED = (".py", ".html", ".css", ".js", ".typed")


MOST_BYTES = 90_000_000  # of the zoo


def test_the_zoo_is_small():
    files = [path for path in (ROOT / "saved_models").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


def test_the_sdist_takes_every_folder_that_the_docs_link_to():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    linked = {folder for page in pages for folder in re.findall(r"\]\(\.\./([\w.]+)/", page)}
    assert "course" in linked
    assert linked <= set(FOLDERS)
    grafted = re.findall(r"^graft (.+)$", (ROOT / "MANIFEST.in").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"keras_attention", *grafted} == set(FOLDERS)  # setuptools takes the package itself


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what the wheel is made of, with one entry more."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    write_tiny_entry(folder / "saved_models" / "tiny")
    return folder


def build(checkout, folder):
    """The wheel of a checkout, built with what is installed: nothing is downloaded."""
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    return build(checkout, tmp_path_factory.mktemp("wheel"))


def run(site, folder, *arguments):
    """Runs the package unpacked at `site` from another folder; its standard output."""
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_ATTENTION_ZOO"}
    environment["PYTHONPATH"] = str(site)
    command = [sys.executable, "-m", "keras_attention", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder, env=environment).stdout


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_package_and_zoo(checkout, wheel):
    code = [path for path in (checkout / "keras_attention").rglob("*") if path.suffix in SHIPPED]
    files = {path.relative_to(checkout).as_posix() for path in code}
    assert files >= {"keras_attention/visualize/attention_page.html", "keras_attention/py.typed"}
    zoo = [path for path in (checkout / "saved_models").rglob("*") if path.is_file()]
    files |= {f"keras_attention/{path.relative_to(checkout).as_posix()}" for path in zoo}
    assert "keras_attention/saved_models/tiny/source_tokenizer/tokenizer.model" in files
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == files


@pytest.mark.slow
def test_the_command_and_what_it_needs_are_declared(wheel):
    info = f"keras_attention_zoo-{__version__}.dist-info"
    assert "keras-attention = keras_attention.__main__:run" in wheel.read(f"{info}/entry_points.txt").decode()
    metadata = wheel.read(f"{info}/METADATA").decode()
    needed = set(re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", metadata, re.MULTILINE))
    assert needed >= {"tensorflow", "keras", "tensorflow-text", "keras-nlp", "h5py"}
    font = FONT_PACKAGES[0].replace("_", "-")
    assert font not in needed
    assert re.search(rf'^Requires-Dist: {font}.*extra == "cjk"$', metadata, re.MULTILINE)
    assert "Requires-Python: >=3.11" in metadata


@pytest.mark.slow
def test_a_package_index_shows_a_readme_whose_links_are_absolute(wheel):
    metadata = wheel.read(f"keras_attention_zoo-{__version__}.dist-info/METADATA").decode()
    home = re.search(r"^Project-URL: Homepage, (.+)$|^Home-page: (.+)$", metadata, re.MULTILINE)
    home = home[1] or home[2]
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    assert targets
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert f"{home}/blob/main/docs/attention.md" in targets
    for target in targets:
        if target.startswith(f"{home}/blob/main/"):
            assert (ROOT / target.removeprefix(f"{home}/blob/main/")).exists(), target


@pytest.mark.thorough
def test_the_sdist_is_complete_and_builds_the_same_wheel(checkout, wheel, tmp_path):
    script = f"import setuptools.build_meta as backend; print(backend.build_sdist({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=checkout)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        sdist.extractall(tmp_path, filter="data")
    unpacked = tmp_path / path.name.removesuffix(".tar.gz")
    for folder in FOLDERS:
        for file in (checkout / folder).rglob("*"):
            assert (unpacked / file.relative_to(checkout)).exists() or "egg-info" in str(file), file
    for name in FILES:
        assert (unpacked / name).read_bytes() == (checkout / name).read_bytes()
    rebuilt = build(unpacked, tmp_path)
    assert sorted(rebuilt.namelist()) == sorted(wheel.namelist())


@pytest.mark.slow
def test_the_zoo_is_found_in_the_wheel_and_in_the_checkout(checkout, wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    names = {path.parent.name for path in (checkout / "saved_models").glob("*/manifest.json")}
    for site in (tmp_path / "site", checkout):
        summaries = json.loads(run(site, tmp_path, "zoo", "list", "--json"))
        assert {summary["name"] for summary in summaries} == names
        assert all(site in Path(summary["folder"]).parents for summary in summaries)
        assert not any("error" in summary for summary in summaries)
    assert "keras-attention" in run(tmp_path / "site", tmp_path, "--help")


@pytest.mark.slow
def test_a_checkout_without_models_builds_too(checkout, tmp_path):
    shutil.copytree(checkout, tmp_path / "bare", ignore=shutil.ignore_patterns("saved_models", "build", "*.egg-info"))
    names = build(tmp_path / "bare", tmp_path).namelist()
    assert "keras_attention/cli/main.py" in names
    assert not any("saved_models" in name for name in names)
