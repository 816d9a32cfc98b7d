"""How this package was installed, and the command that adds the packages of an extra to it."""

import json
import shlex
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "keras-attention-zoo"  # on the package index, keras-attention is a package of other people
CODE = Path(__file__).resolve().parents[2]


def install_command(extra: str) -> str:
    """The shell command that adds the packages of an extra, such as "serve", to this installation.

    A checkout is named by its folder. What pip installed from a folder, a file or a repository is named by that, if it
    is still there: pip keeps it in `direct_url.json` (PEP 610). Else the package index is asked for the distribution.
    """
    if (CODE / "setup.py").is_file():
        return f"pip install -e {shlex.quote(f'{CODE}[{extra}]')}"
    origin = _origin()
    url, named = origin.get("url", ""), f"{DISTRIBUTION}[{extra}]"
    path = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if "vcs_info" in origin:
        system, commit = origin["vcs_info"]["vcs"], origin["vcs_info"]["commit_id"]
        named = f"{named} @ {system}+{url}@{commit}"
    elif path and path.is_dir():
        named = f"{path}[{extra}]"
    elif url and (path is None or path.is_file()):
        named = f"{named} @ {url}"
    return f"pip install {shlex.quote(named)}"


def _origin():
    """What pip knows of the place that it installed this distribution from: {} if that was a package index."""
    with suppress(metadata.PackageNotFoundError, ValueError):
        origin = json.loads(metadata.distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        return origin if isinstance(origin, dict) else {}
    return {}
