"""The flags of the server."""

from keras_attention.commands.arguments import add_command
from keras_attention.serving.settings import ServerSettings


def add_serve(commands):
    help_text = "Serve models over HTTP: a JSON API, and a page to try them."
    command = add_command(commands, "serve", "serve", "serve", help_text)
    command.add_argument(
        "--model", dest="models", action="append", metavar="NAME_OR_PATH", help="may be repeated; default: all models"
    )
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="0.0.0.0: for other machines too")
    command.add_argument("--port", type=int, default=8000, metavar="N", help="0: any that is free (8000)")
    known = ServerSettings()
    numbers = {
        "concurrency": (int, "requests answered at a time; others get 503"),
        "max_batch": (int, "rows of different requests computed together, a power of two"),
        "items": (int, "texts in a request"),
        "characters": (int, "in a text"),
        "seconds": (float, "until a request is there, and again until its answer is"),
        "beam": (int, "beam size of translators; default: each model's own"),
    }
    for name, (kind, meaning) in numbers.items():
        default = getattr(known, name)
        told = meaning if default is None else f"{meaning} ({default:,})"
        command.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, metavar="N", help=told)
