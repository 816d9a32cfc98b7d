"""`keras-attention serve`: a page and a JSON API for models."""

import importlib.util
import json
import sys
from functools import partial

from keras_attention.cli.io.search_options import check_engine
from keras_attention.cli.io.terminal import compiling_note, safe, silent_libraries
from keras_attention.server import ServerSettings
from keras_attention.support.errors import UserError, one_line
from keras_attention.support.installation import install_command
from keras_attention.zoo.registry import find_entry, list_models


def serve(arguments):
    """Checks settings and address first, then loads the models that are named and serves them."""
    needed = ("fastapi", "fastapi_offline", "uvicorn", "httptools", "prometheus_client")
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise UserError(f"The server needs {', '.join(missing)}: {install_command('serve')}")
    check_engine(arguments)
    from keras_attention.server.access import checked_origins, is_readable_by_others, read_keys
    from keras_attention.server.origins import checked_names

    keys = read_keys(arguments.api_key_file) if arguments.api_key_file else ()
    given = {name: getattr(arguments, name) for name in ServerSettings._fields if hasattr(arguments, name)}
    given["allow_hosts"] = checked_names(arguments.allow_hosts)
    given["allow_origins"] = checked_origins(arguments.allow_origins, bool(keys))
    settings = ServerSettings(**given, keys=keys).checked()
    if not arguments.models and not list_models():
        raise UserError("There is no model to serve. Expected: models in the zoo, or --model FOLDER.")
    for name in arguments.models or ():
        find_entry(name)
    with silent_libraries():
        from keras_attention.server.http_server import bind, serve
    report = partial(_report, as_json=arguments.json)
    notify = partial(_notify, file=sys.stderr if arguments.json else sys.stdout)
    end = partial(_end, as_json=arguments.json)
    if keys and is_readable_by_others(arguments.api_key_file):
        notify(f"Warning: other users may read {arguments.api_key_file}: `chmod 600` prevents it.")
    end(serve(arguments.models, settings, bind(arguments.host, arguments.port), report, notify, end))


def _end(answered, as_json):
    total = sum(answered.values())
    print(json.dumps({"answered": answered}) if as_json else f"Stopped after {total:,} requests.")


def _notify(text, file):
    compiling_note.clear()
    print(one_line(text), file=file, flush=True)


def _report(names, url, as_json):
    compiling_note.clear()
    message = json.dumps({"models": names, "url": url}) if as_json else f"{url} serves {', '.join(names)}; Ctrl-C stops"
    print(safe(message), flush=True)
