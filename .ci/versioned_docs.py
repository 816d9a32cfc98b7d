"""Builds the documentation of this version into a site that has those of the others, with a menu of versions.

    python .ci/versioned_docs.py site     # site/0.2.0/, site/versions.json, and site/index.html, which leads there

The folders of other versions stay as they are. The result is a folder of files for any web server; the theme's menu
reads `versions.json`, as it does for the program mike.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"\d+\.\d+\.\d+")
START = """<!doctype html>
<meta charset="utf-8">
<title>keras_attention</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">keras_attention {0}</a>
"""


def main(arguments=None):
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("site", type=Path, help="folder of the site")
    site = parser.parse_args(arguments).site.resolve()
    text = (ROOT / "keras_attention" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]
    temporary = site / f".{version}"
    site.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(temporary)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DOCS_WITH_VERSIONS": "1"}
    if code := subprocess.run(command, cwd=ROOT, env=environment).returncode:
        shutil.rmtree(temporary, ignore_errors=True)
        return code
    shutil.rmtree(site / version, ignore_errors=True)
    temporary.rename(site / version)
    write_menu(site)
    return 0


def write_menu(site):
    """Writes versions.json, the newest first, and the start page."""
    versions = sorted((path.name for path in site.iterdir() if NAME.fullmatch(path.name)), key=numbers, reverse=True)
    menu = [{"version": name, "title": name, "aliases": ["latest"] if name == versions[0] else []} for name in versions]
    (site / "versions.json").write_text(json.dumps(menu, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(START.format(versions[0]), encoding="utf-8")


def numbers(version):
    return [int(number) for number in version.split(".")]


if __name__ == "__main__":
    sys.exit(main())
