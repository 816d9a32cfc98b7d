"""`keras-attention push`: shares a model on the Hugging Face Hub."""

from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.support.errors import quoted
from keras_attention.zoo.registry import find_entry


def push(arguments):
    """Verifies a model, then pushes it with its card; prints the name that loads it.

    With --dry-run, nothing is pushed, and the files are printed.
    """
    find_entry(arguments.name)
    with silent_libraries():
        from keras_attention.publishing.hub_upload import planned_files, push_entry

    visible = "public" if arguments.public else "private"
    if arguments.dry_run:
        _print_plan(arguments, visible, planned_files(arguments.name, arguments.address, arguments.licence))
        return
    pushed = push_entry(arguments.name, arguments.address, arguments.public, arguments.licence)
    if arguments.json:
        print_json(pushed._asdict())
        return
    size = f"{pushed.files} files, {pushed.bytes / 1e6:.1f} MB, {visible}"
    print(safe(f"Pushed to {pushed.link} ({size})."))
    print(safe(f"Load it with keras_attention.load({quoted(arguments.address)}), this state with {pushed.name}"))


def _print_plan(arguments, visible, files):
    """Prints the files that a push would send; `files`: dict from name to bytes."""
    if arguments.json:
        print_json({"address": arguments.address, "private": not arguments.public, "files": files})
        return
    for name, size in files.items():
        print(safe(f"{size:>13,}  {name}"))
    size = f"{len(files)} files, {sum(files.values()) / 1e6:.1f} MB, {visible}"
    print(safe(f"Nothing was pushed. Without --dry-run, these files go to {arguments.address} ({size})."))
